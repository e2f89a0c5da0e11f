"""What the process that starts a backup does for it: hold its snapshot, and start its job again where it was killed.

A snapshot lives as long as the session that holds it. Held here, beside the locks, it outlives the job's driver, so
another driver goes on from the pieces that are finished. Where the session was cut, what was read cannot be joined
with any later snapshot.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import psycopg
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from holdfast.archive import Archive
from holdfast.archive.runs import RunLog, read_last
from holdfast.errors import HoldfastError, SparkEndedError, exit_code_of
from holdfast.jobs import SNAPSHOT_VARIABLE
from holdfast.sources.postgresql import outages
from holdfast.sources.postgresql.snapshot import HeldSnapshot, hold_snapshot
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.archive.runs import RunRecord
    from holdfast.sources.postgresql.address import Address
    from holdfast.storage import ObjectStore

ATTEMPTS = 3
"""So many times a job is started, at most: what ends it each time would end it again."""

RETURN_S = 60.0
"""A server that was restarted has so long to answer again."""

_SHOWN = 200


def run_to_the_end(
    store: ObjectStore,
    run: str,
    address: Address,
    *,
    attempt: Callable[[Mapping[str, str]], str],
    say: Callable[[str], None] = lambda words: None,
) -> None:
    """Run a backup's job until it has said a result or an error of its own, in a snapshot that is held meanwhile.

    :param address: of the source.
    :param attempt: runs the job once, with these environment variables, until none of its processes is left;
        returns the sentence that its driver ended with, if there is one.
    :param say: is told why a job is started again; the run's records tell it, too.
    :raises RefusedError, BusyError: no snapshot could be taken.
    """
    with ExitStack() as holding:
        held = _hold(store, run, lambda: _take(address, holding))
        for number in range(2, ATTEMPTS + 2):
            words = attempt({SNAPSHOT_VARIABLE: held.snapshot.to_json()})
            record = _last_of_unfinished(store, run)
            if record is None or number > ATTEMPTS:
                return
            killed = _was_killed(record, words)
            gone = held.why_gone() if killed or _failed(record) else ""
            if not killed and not gone:
                return
            _tell(store, run, f"{_why(record, gone)} (attempt {number} of {ATTEMPTS})", say)
            if gone:
                holding.close()
                held = _hold(store, run, lambda: _PATIENTLY(_take, address, holding))


_PATIENTLY = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, HoldfastError) and exit_code_of(error) == 1),
    wait=wait_fixed(1),
    stop=stop_after_delay(RETURN_S),
    reraise=True,
)


def _hold(store: ObjectStore, run: str, take: Callable[[], HeldSnapshot]) -> HeldSnapshot:
    try:
        return take()
    except HoldfastError as error:
        with suppress(StoreError):
            RunLog(store, run, "backup").fail(error)
        raise


def _take(address: Address, holding: ExitStack) -> HeldSnapshot:
    try:
        return holding.enter_context(hold_snapshot(address))
    except psycopg.Error as error:
        told = outages.explained(error, address.url)
        raise told or HoldfastError(f"no snapshot of {address.url} could be taken: {outages.words(error)}") from error


def _last_of_unfinished(store: ObjectStore, run: str) -> RunRecord | None:
    """Return the last record of a job that began; None where it has done its work, or that cannot be told."""
    with suppress(HoldfastError, StoreError):
        record = read_last(store, run)
        if record and record.state != "succeeded" and not Archive.open(store).state.of_run(run):
            return record
    return None


def _was_killed(record: RunRecord, words: str) -> bool:
    """Say whether a job had no time to say how it ended, or was left alone by Spark."""
    if record.error is not None:
        return record.error.type == SparkEndedError.__name__
    return not words


def _failed(record: RunRecord) -> bool:
    """Say whether a job failed as it would if its snapshot was gone."""
    return record.error is not None and record.error.exit_code == HoldfastError.exit_code


def _why(record: RunRecord, gone: str) -> str:
    if gone:
        return (
            "starting again from nothing: the session that held the snapshot was cut "
            f"({gone[:_SHOWN]}), and what was read in it cannot be joined with a new one"
        )
    return f"the job was ended from outside while {record.step}: starting it again"


def _tell(store: ObjectStore, run: str, words: str, say: Callable[[str], None]) -> None:
    say(words)
    with suppress(StoreError):
        log = RunLog(store, run, "backup")
        log.say(words)
        log.progress("starting again")
