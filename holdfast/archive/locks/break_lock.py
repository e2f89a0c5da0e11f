"""Breaking of a lock by a person's decision, with a record of who and why.

It is kept for good under `runs/`, as that of a run whose name begins with `break-<txn>`: the marker of an ended lock
goes after a while, and says nothing any more once what came late has been ended again.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import RunError, RunRecord, listed_runs, newest_records, record_key
from holdfast.common.errors import RefusedError, UsageError, exit_code_of, sentence
from locking import LockError, Owner, end, inspect
from locking.store import StoreError

if TYPE_CHECKING:
    from holdfast.storage import ObjectStore
    from locking import LockInfo

OPERATION = "break"


def break_lock(store: ObjectStore, txn: str, *, reason: str, user: str = "") -> tuple[LockInfo, RunRecord]:
    """End one lock, of any holder; return it as it was, and the record, which is made first.

    :param user: who decides it; "" for the user of this process.
    :raises UsageError: there is no such lock, or no reason is given.
    :raises LockNotFound: it has gone meanwhile.
    """
    if not reason.strip():
        raise UsageError("say why the lock is broken: whoever looks later wants to know")
    found = _find(store, txn)
    log = _BreakLog(store, found, reason.strip(), Owner(user=user).here())
    log.write("running", step=f"breaking the lock of {found.resource}")
    try:
        end(store, found.resource, txn, reason=f"it was broken: {reason.strip()}")
    except (LockError, StoreError) as error:
        failure = RunError(type=type(error).__name__, message=sentence(error), exit_code=exit_code_of(error))
        with suppress(StoreError):  # the error itself matters more than its record
            log.write("failed", step="not certainly broken", error=failure)
        raise
    done = log.record("succeeded", step="broken")
    with suppress(StoreError):  # it is broken, and the first record says by whom
        log.put(done)
    return found, done


_NEWEST = 100  # breaks that are read, at most


def read_breaks(store: ObjectStore, txn: str = "") -> list[RunRecord]:
    """Return the last record of each of the newest breaks, of all or one transaction, the oldest first."""
    runs = listed_runs(store, f"{OPERATION}-{f'{txn}.' if txn else ''}")[-_NEWEST:]
    return sorted(
        (found.record for found in newest_records(runs)), key=lambda record: str((record.result or {}).get("at"))
    )


def describe_break(record: RunRecord) -> str:
    """Return what was broken, when, by whom and why, as one sentence."""
    said = record.result or {}
    by = Owner(user=said["by"]["user"], host=said["by"]["host"], pid=said["by"]["pid"])
    how = "was broken" if record.state == "succeeded" else "was to be broken, and nothing says whether it was,"
    return f"{said['resource']} (txn {said['txn']}) {how} at {said['at']} by {by.describe()}: {said['reason']}"


def _find(store: ObjectStore, txn: str) -> LockInfo:
    found = [info for info in inspect(store) if info.txn == txn and info.state != "foreign"]
    if not found:
        raise UsageError(
            f"there is no lock with txn {txn!r}; it may have been released or broken. Nothing was broken now"
        )
    if len(found) > 1:
        folders = " and ".join(info.resource for info in found)
        raise RefusedError(f"txn {txn} stands in the folders of {folders}: somebody has copied lock objects")
    return found[0]


class _BreakLog:
    def __init__(self, store: ObjectStore, info: LockInfo, reason: str, by: Owner) -> None:
        self._store = store
        now = store.list(f"runs/{OPERATION}-{info.txn}.").now
        self._run = f"{OPERATION}-{info.txn}.{now:%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"
        self._number = 0
        self._result = {
            "resource": info.resource,
            "mode": info.mode,
            "txn": info.txn,
            "was": info.state,
            "owner": asdict(info.owner) if info.owner else None,
            "purpose": info.purpose,
            "reason": reason,
            "by": {"user": by.user, "host": by.host, "pid": by.pid},
            "at": iso(now),
        }

    def record(self, state: Literal["running", "succeeded", "failed"], **more: Any) -> RunRecord:
        return RunRecord(
            run=self._run, number=self._number, operation=OPERATION, state=state, result=self._result, **more
        )

    def put(self, record: RunRecord) -> None:
        """Write a record, whose number is spent in any case: a lost reply may have written it."""
        self._number += 1
        self._store.create(record_key(record.run, record.number), record.to_bytes())

    def write(self, state: Literal["running", "succeeded", "failed"], **more: Any) -> None:
        self.put(self.record(state, **more))
