"""`holdfast locks`: the locks and their holders, and the removal of dead locks. Works with Airflow down."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.history import restore_points
from holdfast.archive.locks.break_lock import break_lock, describe_break, read_breaks
from holdfast.archive.locks.lock_report import Explanation, describe_lock, explain
from holdfast.archive.locks.lock_table import AVAILABLE, TABLE, full_plan
from holdfast.archive.locks.owner_status import TOKEN_VARIABLE, URL_VARIABLE, AirflowApi, Word, nobodys_state
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import HoldfastError, UsageError, sentence
from locking import inspect, liveness, reap
from locking.store import MOST_OBJECTS, ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.runs import RunRecord
    from holdfast.archive.locks.lock_table import PlannedLock, Row
    from holdfast.archive.locks.owner_status import OwnerState
    from holdfast.replication.log.settings import CoordinationAddress
    from holdfast.storage import ObjectStore
    from locking import LockInfo, Owner

locks_app = typer.Typer(
    name="locks",
    help="The locks, their holders and what to do about them. Works with Airflow down.",
    no_args_is_help=True,
)

Airflow = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar=URL_VARIABLE,
        help=f"Ask this Airflow whether owners have ended; its token comes from {TOKEN_VARIABLE}.",
    ),
]

SHOWN = 100
"""Locks that are printed for people, at most."""

PER_SOURCE = {"backup"}
"""Operations that write one source at a time."""


@locks_app.command(name="list")
def list_locks(url: Url, as_json: Json = False) -> None:
    """List every lock and every attempt at one, and the leases on sources of a replica's archive; changes nothing."""
    output = Output(as_json=as_json)
    resolved = places.resolve(url)
    store = _store(url)
    infos = inspect(store)
    sources = _source_leases(store, resolved.coordination, output)
    value = {"locks": [describe_lock(info) for info in infos], "sources": sources}
    output.result(value, _held_lines(infos, sources))


def _source_leases(store: ObjectStore, address: CoordinationAddress, output: Output) -> list[dict[str, Any]]:
    """Return the leases on the sources of an archive with replicas."""
    try:
        archive = Archive.open(store, recovering=True)
    except (HoldfastError, StoreError):
        return []  # its locks can be listed all the same
    if archive.state.log is None:
        return []
    from holdfast.replication.log.source_lease import source_leases  # with what talks to a coordination store
    from holdfast.replication.log.store import clock, opened

    try:
        with opened(address) as coordination:
            leases, now = coordination.run(lambda c: (source_leases(c, archive.identity.id), clock(c)))
    except HoldfastError as error:
        output.say(f"the sources that are being backed up through replicas are unknown: {sentence(error)}")
        return []
    return [each.value(now) for each in leases]


def _held_lines(infos: Sequence[LockInfo], sources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from _first([f"{info.state}: {info.describe()}{_ending(info)}" for info in infos] or ["no locks"])
    for lease in sources:
        yield lease["words"]


def _ending(info: LockInfo) -> str:
    if info.expires_in_s is None or info.state in ("expired", "dead"):
        return ""
    return f"; ends in {info.expires_in_s:.0f} s unless renewed"


@locks_app.command(name="explain")
def explain_locks(
    url: Url,
    txn: Annotated[str | None, typer.Option(metavar="TXN", help="Only this lock; it may have been broken.")] = None,
    airflow: Airflow = None,
    as_json: Json = False,
) -> None:
    """Explain each lock: its holder's state, the operations that it keeps out, and safe remedies; changes nothing."""
    output = Output(as_json=as_json)
    store = _store(url)
    with _word_of(airflow) as state_of:
        explained = [each for each in explain(inspect(store), state_of=state_of) if txn in (None, each.lock.txn)]
    broken = read_breaks(store, txn) if txn else read_breaks(store)
    if txn and not explained and not broken:
        raise UsageError(f"there is no lock with txn {txn!r}, and no record that it was broken: it was released")
    value = {"locks": [each.describe() for each in explained], "broken": [_break_value(record) for record in broken]}
    output.result(value, _explained_lines(explained, broken))


def _explained_lines(explained: Sequence[Explanation], broken: Sequence[RunRecord]) -> Iterator[str]:
    for each in explained[:SHOWN]:
        yield f"{each.lock.state}: {each.lock.describe()}{_ending(each.lock)}"
        if each.keeps_out:
            yield f"  keeps out: {', '.join(each.keeps_out)}"
        for other in each.waiting[:SHOWN]:
            yield f"  waiting for it: {other.describe()}"
        yield f"  {each.advice}"
    yield from _more(len(explained))
    if not explained and not broken:
        yield "no locks"
    for record in broken:
        yield f"broken: {describe_break(record)}"


@locks_app.command(name="break")
def break_one(
    url: Url,
    txn: Annotated[str, typer.Option(metavar="TXN", help="The lock's transaction, whole, as `locks list` shows it.")],
    reason: Annotated[str, typer.Option(metavar="WORDS", help="Why; kept in the archive with your name.")],
    as_json: Json = False,
) -> None:
    """Break one held lock: its holder's uncommitted work is lost. Look with `explain` first."""
    output = Output(as_json=as_json)
    broken, record = break_lock(_store(url), txn, reason=reason)
    if broken.owner is not None and liveness(broken.owner) == "running":
        output.say(f"its process {broken.owner.pid} still runs here, and stops at its next check")
    output.result(_break_value(record), describe_break(record))


@locks_app.command(name="reap")
def reap_locks(url: Url, airflow: Airflow = None, as_json: Json = False) -> None:
    """Remove dead locks: past their lease and grace, or of a process that is proved gone. Healthy locks stay.

    With --airflow, a lock past its lease goes at once where Airflow says that its owner has ended.
    """
    output = Output(as_json=as_json)
    store = _store(url)
    with _word_of(airflow) as state_of:
        ended = reap(store, finished=lambda owner: state_of(owner).has_ended)
    listed = [{**describe_lock(each.lock), "reason": each.reason} for each in ended[:MOST_OBJECTS]]
    more = len(ended) - len(listed)
    value = {"ended": listed, **({"more": more} if more else {})}
    lines = [f"ended: {each.lock.describe()}: {each.reason}" for each in ended] or ["no dead locks"]
    output.result(value, _first(lines))


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:SHOWN]
    yield from _more(len(lines))


def _more(count: int) -> Iterator[str]:
    if count > SHOWN:
        yield f"and {count - SHOWN} more: --json has them"


@locks_app.command(name="plan")
def show_plan(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="An archive: for its sources and the locks in the way now.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the locks that each operation takes, in the order of taking them; changes nothing."""
    output = Output(as_json=as_json)
    sources: Sequence[str] = ["<source>"]
    infos: Sequence[LockInfo] = []
    if url is not None:
        resolved = places.resolve(url)
        archive = Archive.open(resolved.open())
        sources = sorted({*restore_points.source_names(archive.state), *resolved.settings.sources}) or sources
        infos = inspect(archive.store)
    values = [value for row in TABLE for name in row.operations for value in _plan_values(row, name, sources, infos)]
    output.result({"operations": values}, _plan_lines(values))


def _plan_values(row: Row, name: str, sources: Sequence[str], infos: Sequence[LockInfo]) -> Iterator[dict[str, Any]]:
    for chosen in [[source] for source in sources] if name in PER_SOURCE else [list(sources)]:
        planned = full_plan(name, chosen)
        yield {
            "operation": name,
            "sources": chosen if "ingest" in row.needs else [],
            "note": row.notes.get(name, ""),
            "in_this_release": name in AVAILABLE,
            "locks": [asdict(lock) for lock in planned],
            "in_the_way": [describe_lock(info) for info in infos if _is_in_the_way(info, planned)][:SHOWN],
        }


def _is_in_the_way(info: LockInfo, planned: Iterable[PlannedLock]) -> bool:
    return any(lock.is_blocked_by(info) for lock in planned if not lock.when)


def _plan_lines(values: Sequence[dict[str, Any]]) -> Iterator[str]:
    for value in values:
        name = value["operation"] + (f" of {value['sources'][0]}" if value["operation"] in PER_SOURCE else "")
        words = "; ".join(filter(None, [value["note"], "" if value["in_this_release"] else "not in this release"]))
        yield f"{name} ({words})" if words else name
        for lock in value["locks"]:
            when = f"  {lock['when']}" if lock["when"] else ""
            yield f"  {lock['mode']} {lock['resource']}{when}"
        for info in value["in_the_way"]:
            yield f"  in the way now: {info['words']}"


@contextmanager
def _word_of(airflow: str | None) -> Iterator[Callable[[Owner], OwnerState]]:
    """Provide a function from an owner to its state in Airflow; without Airflow, none is known."""
    if airflow is None:
        yield nobodys_state
        return
    api = AirflowApi(airflow)
    try:
        yield Word(api).state_of
    finally:
        api.close()


def _store(url: str) -> ObjectStore:
    """Open a store with an archive, readable or not, or with locks; raises UsageError for any other."""
    store = places.archive_store(url)
    try:
        store.head(IDENTITY_KEY)
    except ObjectNotFound:
        if not store.first("locks/", 1):
            raise UsageError(f"{store.url} is not an archive (it has no {IDENTITY_KEY}) and has no locks") from None
    return store


def _break_value(record: RunRecord) -> dict[str, Any]:
    return {**(record.result or {}), "run": record.run, "outcome": record.state}
