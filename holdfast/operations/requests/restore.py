"""The request for a restore."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import field_validator, model_validator
from pydantic_core import PydanticCustomError

from holdfast.common.choices import Schema  # noqa: TC001 - pydantic reads it at run time
from holdfast.common.units import AGO, absolute_time
from holdfast.config.archives_model import Consistency  # noqa: TC001 - as above
from holdfast.operations.requests.base import NO_LOCK, SCHEMA, Option, Request

_TIME = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})"
_AT = f"^(latest|commit:[0-9]+|lsn:[0-9A-Fa-f]+/[0-9A-Fa-f]+|mark:.+|{_TIME}|{AGO.strip('^$')})$"


_ON_DEFINITIONS = ("schema_only", "roles", "owner", "no_owner", "tablespaces", "database_settings")
"""Options for the creation of objects."""


class RestoreRequest(Request):
    """A restore of a source, or of chosen tables of it, to a recovery target.

    :param source: its name in the archive; needed where the archive has several.
    """

    operation: ClassVar[str] = "restore"

    source: str | None = None
    at: Annotated[
        str,
        Option(
            "The recovery target: latest, a time with its zone (2026-03-01T12:00:00Z) or before now (-10min), a mark "
            "(mark:NAME), commit:N, or lsn:X/Y. 'holdfast points' lists them.",
            schema=(("pattern", _AT),),
        ),
    ] = "latest"
    tables: Annotated[
        tuple[str, ...],
        Option(
            "Only these tables, globs of schema.table, with their indexes, keys, sequences and triggers, and the types "
            "and functions that they need; then the database need not be empty.",
            metavar="GLOB",
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Option(
            "Not these tables, globs of schema.table: in a restore of everything they are created empty, in one of "
            "chosen tables they are left out.",
            metavar="GLOB",
        ),
    ] = ()
    schema_only: Annotated[
        bool, Option("Only definitions: tables are empty, and sequences at their start.", title="Schema only")
    ] = False
    data_only: Annotated[
        bool,
        Option(
            "Only rows and values of sequences, into existing, empty tables of the target. All of them are filled, or "
            "none.",
            title="Data only",
        ),
    ] = False
    map: Annotated[
        tuple[str, ...],
        Option(
            "Another name: public=restored sends a schema's tables to another schema, public.orders=archive.orders "
            "renames one table.",
            metavar="OLD=NEW",
            title="Other names",
            schema=(("items", {"type": "string", "pattern": "^[^=]+=[^=]+$"}),),
        ),
    ] = ()
    roles: Annotated[
        Literal["check", "create", "harmless"],
        Option(
            "Roles that own or may use objects: 'check' that they exist, or 'create' missing ones, without passwords.",
            schema=(("enum", ["check", "create"]),),
        ),
    ] = "check"
    owner: Annotated[
        str | None,
        Option(
            "Make this role of the target the owner of everything.",
            metavar="ROLE",
            schema=(("type", ["null", "string"]),),
            operator="new_owner",  # `owner` is that of a task
        ),
    ] = None
    no_owner: Annotated[
        bool, Option("Leave everything to the role that restores, which is no superuser.", title="No owner")
    ] = False
    tablespaces: Annotated[
        Literal["drop", "keep"],
        Option("'drop': put everything into the database's own tablespace; 'keep': where it was."),
    ] = "drop"
    database_settings: Annotated[
        Literal["drop", "keep"] | None,
        Option(
            "Settings of the database itself and of roles in it, its privileges, comment and connection limit. 'keep': "
            "apply them to the target's; 'drop': only list them. Default is to keep them if everything is restored "
            "into an empty database."
        ),
    ] = None
    schema_choice: Annotated[Schema, SCHEMA] = "auto"
    strict: Annotated[
        bool,
        Option(
            "Fail if rows break a constraint, the server refuses an object, or anything else after the rows cannot be "
            "restored. Otherwise it is left out, or added NOT VALID, and listed."
        ),
    ] = False
    trust_source: Annotated[
        bool,
        Option(
            "Let code of the source run with the rights of the superuser who restores, if no log-in with fewer rights "
            "is possible.",
            title="Trust the source",
        ),
    ] = False
    consistency: Annotated[
        Consistency | None,
        Option(
            "For an archive with replicas. 'sequential': every backup whose quorum has succeeded, and no other. "
            "'eventual': what the first replica has. Default is the setting in archives.yaml.",
            is_in_command=False,
        ),
    ] = None
    dry_run: Annotated[bool, Option("Show the plan, and change nothing.", title="Dry run", operator="only_plan")] = (
        False
    )
    no_lock: Annotated[bool, NO_LOCK] = False

    @field_validator("at")
    @classmethod
    def _absolute(cls, given: str) -> str:
        """Resolve a time before now once, so that the job and its retries mean the same."""
        return absolute_time(given)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        fields = type(self).model_fields
        given = [name for name in _ON_DEFINITIONS if getattr(self, name) != fields[name].default]
        if self.data_only and given:
            words = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise PydanticCustomError("conflict", f"--data-only creates nothing: leave out {words}")
        return self

    @property
    def is_beside(self) -> bool:
        """Return whether the target may hold other objects."""
        return bool(self.tables or self.map or self.data_only)

    @property
    def keeps_database_settings(self) -> bool:
        """Return whether settings of the database itself are restored."""
        return self.database_settings == "keep" or (self.database_settings is None and not self.is_beside)

    @property
    def creates_roles(self) -> bool:
        """Return whether missing roles are created; otherwise they must exist."""
        return self.roles != "check"

    @property
    def has_harmless_roles(self) -> bool:
        """Return whether created roles have no rights beyond an owner's of tables: for drills."""
        return self.roles == "harmless"
