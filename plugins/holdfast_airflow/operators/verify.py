"""Look whether an archive is what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.common.errors import DamagedError, HoldfastError
from holdfast.config.archives_model import parse_budget, parse_span
from holdfast.config.archives_yaml import find_archive
from holdfast.operations.executor_choice import choose_executor, forced_executor
from holdfast_airflow.arguments import is_yes
from holdfast_airflow.coordination import coordination_address
from holdfast_airflow.operators.job import ArchiveJobOperator
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.executor_choice import ExecutorChoice
    from holdfast.storage import ObjectStore

_TOLD = 3


class VerifyOperator(ArchiveJobOperator):
    """Look whether everything that the commits name is there and is what was written; read all files over days.

    Each run checks the commits since the last one and the sizes of the files that they brought; a deep one also reads
    those files that were not read for longest, and what was damaged before. Damage fails the task, without another
    try, and names what it costs; nothing is changed. A replica whose files are missing, or not what was written, is
    marked as lost, so that :class:`RecoverReplicas` fetches them from another one. Returns `commits`, `blocks`, `files`
    and `bytes` that were looked at, `deep`, and `read_since` (every file was read, or made, after that moment).

    :param deep: read files. (templated)
    :param within: a deep run reads as much as is needed to have read all in this time; without it, what archives.yaml
        says. (templated)
    :param budget: what one run reads at most, such as `100 GB` or `2h`; without it, what archives.yaml
        says. (templated)
    """

    operation: ClassVar[str] = "verification"
    template_fields: Sequence[str] = (*ArchiveJobOperator.template_fields, "deep", "within", "budget")

    def __init__(
        self, *, deep: bool | str = True, within: str | None = None, budget: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.deep = deep
        self.within = within
        self.budget = budget

    def chosen_executor(self) -> ExecutorChoice:
        """Return where the job runs: a deep one reads all files by Spark."""
        forced = forced_executor(self.job_executor)
        return choose_executor(self.operation, forced=forced, reads_files=is_yes(self.deep))

    def arguments(self, archive: ArchiveConfig, source: str | None) -> Sequence[str]:
        """Return how much is read."""
        if not is_yes(self.deep):
            return ["--new"]
        within, budget = self.within or archive.verification.deep_within, self.budget or archive.verification.budget
        parse_span(within)  # what is wrong with them is said before any lock is taken
        arguments = ["--deep", "--new", "--within", within]
        if budget:
            parse_budget(budget)
            arguments += ["--budget", budget]
        return arguments

    def _give_up_replica(self, store: ObjectStore, damaged: int) -> None:
        """Say in the coordination store that a replica has to be made anew, whatever is in the way of saying so.

        :param damaged: how many files another replica may have as they were written.
        """
        from holdfast.archive import Archive
        from holdfast.replication.work.upkeep import report_damage

        try:
            archive = Archive.open(store)
            if archive.state.log is None:
                return
            report_damage(archive, damaged, address=coordination_address(find_archive(self.archive)))
            self.log.warning(
                "replica %s is marked as lost: its recovery fetches what it lacks", archive.state.log.replica
            )
        except (HoldfastError, StoreError) as error:
            self.log.error("the replica is not marked as lost: %s", error)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was looked at.

        :raises DamagedError: not everything is what was written.
        """
        if damage := result.get("damage"):
            if replaceable := sum(bool(each.get("replaceable")) for each in result.get("costs", ())):
                self._give_up_replica(store, replaceable)
            more = f"; and {len(damage) - _TOLD} more, in the log" if damage[_TOLD:] else ""
            raise DamagedError(f"damaged or missing: {'; '.join(damage[:_TOLD])}{more}")
        return {key: result.get(key) for key in ("commits", "blocks", "files", "bytes", "deep", "read_since")}
