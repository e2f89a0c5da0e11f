"""Bring a database back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.common.errors import UsageError
from holdfast_airflow.arguments import is_yes, listed
from holdfast_airflow.connections import database_address
from holdfast_airflow.coordination import coordination_address
from holdfast_airflow.operators.job import DatabaseJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.config.archives_model import ArchiveConfig, Consistency
    from holdfast.sources.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore


class RestoreOperator(DatabaseJobOperator):
    """Restore a source of an archive, or tables of it, and prove them equal to the archive.

    Everything goes into an empty database; chosen tables, or all under other names, go beside what is there.
    Returns `commit`, `restored_to`, `position`, `tables`, `rows`, `seconds`, `not_restored`, `skipped_existing`,
    `unlogged`, `stale` (tables whose rows are older than that, since their changes are not backed up), `schema_note`
    (why the schema may be that of another moment, or empty), `roles` and `read_from` (which replica was read and how
    fresh it is); after a dry run also `dry_run` and `plan`.

    :param target_conn_id: the Airflow connection to the database to write to, of type postgres. (templated)
    :param at: `latest`, a time (ISO 8601, with its zone), `mark:NAME`, `lsn:X/Y` or `commit:N`. One that cannot be
        restored is refused with the nearest that can. (templated)
    :param tables: globs, matched against `schema.table`, a list or one string; none means everything. (templated)
    :param map: other names, as `OLD=NEW`: of schemas (`public=restored`) or tables
        (`public.orders=archive.orders`). (templated)
    :param roles: `check` that the roles are there that own or may use something, or `create` those that are
        missing, without passwords. (templated)
    :param tablespaces: `drop` them, so that everything goes into the database's own, or `keep` them, where the
        target has them. (templated)
    :param schema: `earlier` or `later`, where it was changed between two backups, and it is not known when: see
        `schema_note`. `auto` for the one that serves best. (templated)
    :param strict: fail where rows break a condition, the server refuses an object, or anything else that follows the
        rows does not come back as it was. Otherwise it is left out, or added `NOT VALID`, and named under
        `not_restored`. (templated)
    :param trust_source: let code of the source, such as a function that a CHECK calls, run with the rights of a
        superuser who restores, where no log-in without these can be had. (templated)
    :param consistency: `sequential`, from a replica that has every backup whose quorum has succeeded, and without those
        that wait for it or have failed: where no `replica` is named, the first one that has. Or `eventual`, what the
        replica has. Without it, what archives.yaml says. (templated)
    :param only_plan: make a dry run: nothing is changed. Airflow has a method `dry_run` of its own. (templated)
    """

    operation: ClassVar[str] = "restore"
    role: ClassVar[Literal["source", "target"]] = "target"
    template_fields: Sequence[str] = (
        *DatabaseJobOperator.template_fields,
        "target_conn_id",
        "at",
        "tables",
        "map",
        "roles",
        "tablespaces",
        "schema",
        "strict",
        "trust_source",
        "consistency",
        "only_plan",
    )

    def __init__(
        self,
        *,
        target_conn_id: str,
        at: str = "latest",
        tables: Sequence[str] | str | None = None,
        map: Sequence[str] | str | None = None,
        roles: str = "check",
        tablespaces: str = "drop",
        schema: str = "auto",
        strict: bool | str = False,
        trust_source: bool | str = False,
        consistency: str | None = None,
        only_plan: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target_conn_id = target_conn_id
        self.at = at
        self.tables = tables
        self.map = map
        self.roles = roles
        self.tablespaces = tablespaces
        self.schema = schema
        self.strict = strict
        self.trust_source = trust_source
        self.consistency = consistency
        self.only_plan = only_plan

    def place(self, archive: ArchiveConfig) -> str:
        """Return the URL of the archive; where a replica may be chosen, that of the first one that can be read so."""
        if self.replica is not None or not archive.replicas or self._consistency(archive) == "eventual":
            return super().place(archive)
        from holdfast.replication.work.consistent_read import open_first
        from holdfast.storage import open_store

        stores = [open_store(url, archive.key) for url in archive.replicas.values()]
        return open_first(stores, "sequential", address=coordination_address(archive)).store.url

    def _consistency(self, archive: ArchiveConfig) -> Consistency:
        from holdfast.replication.work.consistent_read import parse_consistency

        return parse_consistency(self.consistency or archive.consistency)

    def database(self, archive: ArchiveConfig) -> tuple[str | None, Address]:
        """Return the source to restore, if one is named or there is only one, and the target."""
        if not self.target_conn_id:
            raise UsageError("say where to restore to: the id of an Airflow connection, in 'target_conn_id'")
        source = archive.source(self.source)[0] if archive.sources else self.source
        return source, database_address(self.target_conn_id)

    def arguments(self, archive: ArchiveConfig, source: str | None) -> Sequence[str]:
        """Return the moment, the tables and their names, and what becomes of roles and tablespaces."""
        arguments = ["--at", self.at or "latest"]
        arguments += ["--roles", self.roles] if self.roles != "check" else []
        arguments += ["--tablespaces", self.tablespaces] if self.tablespaces != "drop" else []
        arguments += ["--schema", self.schema] if self.schema != "auto" else []
        arguments += ["--strict"] if is_yes(self.strict) else []
        arguments += ["--trust-source"] if is_yes(self.trust_source) else []
        consistency = self._consistency(archive)
        arguments += ["--consistency", consistency] if consistency != "eventual" else []
        for glob in listed(self.tables, "tables"):
            arguments += ["--tables", glob]
        for each in listed(self.map, "map"):
            arguments += ["--map", each]
        return [*arguments, *(["--dry-run"] if is_yes(self.only_plan) else [])]

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the job, which has compared target and archive itself, found."""
        told = {key: result.get(key) for key in ("commit", "restored_to", "position", "tables", "rows", "seconds")}
        lists = ("not_restored", "skipped_existing", "unlogged", "stale", "lost")
        told |= {key: result.get(key, []) for key in lists}
        told["schema_note"] = result.get("schema_note", "")
        return told | {
            key: result[key] for key in ("roles", "loaded_by", "read_from", "dry_run", "plan") if key in result
        }
