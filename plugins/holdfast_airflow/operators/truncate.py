"""Remove restore points that nothing keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from holdfast_airflow.arguments import is_yes, listed
from holdfast_airflow.operators.job import SourceJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.storage import ObjectStore


class TruncateOperator(SourceJobOperator):
    """Remove the restore points that no rule and no hold keeps; the newest backups always stay.

    It makes one commit, or none where nothing is to go. Files are deleted later, by :class:`VacuumOperator`, once the
    grace is over. Where there are replicas, the one that it is done through leads meanwhile, and the others follow at
    their next sync. Returns `commit` (None where none was made), `keep`, `blocks_removed`, `bytes`, `dry_run` and
    `sources`, each with how many points stay and go and what can be restored before and after.

    :param source: only this one's restore points; without it, those of all. (templated)
    :param keep: rules such as `daily=14` or `within=7d`; empty means those of archives.yaml. (templated)
    :param min_chains: so many of the newest full backups always stay, with what follows them. (templated)
    :param only_plan: make a dry run: the log says what would go. Airflow has a method `dry_run` of its own. (templated)
    """

    operation: ClassVar[str] = "truncation"
    template_fields: Sequence[str] = (*SourceJobOperator.template_fields, "keep", "min_chains", "only_plan")

    def __init__(
        self,
        *,
        keep: Sequence[str] | str | None = None,
        min_chains: int | str = 1,
        only_plan: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.keep = keep
        self.min_chains = min_chains
        self.only_plan = only_plan

    def arguments(self, archive: ArchiveConfig, source: str | None) -> Sequence[str]:
        """Return the rules.

        :raises UsageError, RefusedError: they make no sense, or would keep nothing.
        """
        from holdfast.archive.maintenance.retention import parse_rules

        rules = listed(self.keep, "keep") or list(archive.keep.rules())
        parse_rules(rules)  # what is wrong with them is said before any lock is taken
        arguments = [word for rule in rules for word in ("--keep", rule)]
        return [*arguments, "--min-chains", str(self.min_chains), *(["--dry-run"] if is_yes(self.only_plan) else [])]

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return what went, or would; the commit was checked by the archive itself."""
        told = ("commit", "keep", "blocks_removed", "bytes", "dry_run", "sources")
        return {key: result.get(key) for key in told}
