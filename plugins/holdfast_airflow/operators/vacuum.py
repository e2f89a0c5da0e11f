"""Vacuum of an archive, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.errors import BusyError, HoldfastError
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast_airflow.operators.job import ArchiveJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.requests.base import Request
    from holdfast.storage import ObjectStore


class VacuumOperator(ArchiveJobOperator):
    """Operator that deletes unneeded files once their grace is over.

    These are the files of removed blocks, and orphan files of killed backups. It is the only operation that deletes
    data files, and gives way to readers: what it did not come to, another try does. Returns `files` and `bytes` that
    were deleted, `blocks` and `abandoned` (how many are gone for good), `waiting` (removed blocks whose grace is not
    over), `waits_for` (replicas that may still fetch some from this one), `retained` (files that an object lock keeps),
    `busy` (backups at work whose leftovers were not looked at) and `dry_run`.

    """

    request_type = VacuumRequest

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        return super().request(archive, source).filled(grace=archive.vacuum.grace)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is deleted and what remains.

        :raises HoldfastError: the store failed, or forbade a deletion that no object lock forbids.
        :raises BusyError: readers were in the way of the rest.
        """
        refused = [refusal for refusal in result.get("refused", ()) if not refusal["retained"]]
        if result.get("trouble") or refused:
            raise HoldfastError(result.get("trouble") or f"{refused[0]['reason']} ({len(refused)} files in all)")
        if remaining := result.get("left"):
            raise BusyError(f"{remaining} files are left, since readers were in the way: {'; '.join(result['busy'])}")
        return {
            "files": result.get("files"),
            "bytes": result.get("bytes"),
            "dry_run": result.get("dry_run"),
            "busy": list(result.get("busy", ())),
            "waits_for": sorted({name for block in result.get("awaited", ()) for name in block["replicas"]}),
            **{key: len(result.get(key, ())) for key in ("blocks", "abandoned", "waiting")},
            "retained": len(result.get("refused", ())),
        }
