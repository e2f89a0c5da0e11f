"""`holdfast replica add`, `elect`, `remove` and `forget`: the set of an archive's replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.cli.replica.options import AnyReplica, Asked, OfArchive, Replica, ask
from holdfast.cli.replica.status import log_words
from holdfast.cli.replica.upkeep import brought, recover_replica
from holdfast.cli.shared.options import Json, Store, Wait, Yes  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, show_rows
from holdfast.common.errors import RefusedError, UsageError
from holdfast.config.archives_model import Name
from holdfast.operations.requests.recovery import RecoveryRequest
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.replicas import log_states, replicas
from holdfast.replication.work import membership
from holdfast.replication.work.survey import ReadableReplica, UnreadableReplica, of_archive
from holdfast.replication.work.survey import ask as survey
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.work.survey import SurveyedReplica
    from holdfast.storage import ObjectStore


def add(
    name: Annotated[str, typer.Argument(help="What to call the replica.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="An archive without replicas, or an empty place.")],
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Make an archive the first replica of its update log; make an empty place, or a copy, another one.

    Stopped, it goes on when run again.
    """
    output = Output(as_json=as_json)
    _check_name(name)
    with ask(store, archive, create=True) as asked:
        _check_configured(asked, name, url)
        place = asked.place(url)
        there = _archive_at(place)
        if there is not None and there.identity.id not in _logs(asked):
            value = _add_first(asked, place, there, name, wait)
        else:
            value = _add(asked, place, there, name, wait, output)
    output.result(value, lambda console: console.print(_added(value), markup=False))


def _check_name(name: str) -> None:
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        raise UsageError(
            f"{name!r} cannot name a replica: use letters, digits, '_', '.' and '-', at most 64, beginning with a "
            "letter or digit"
        ) from error


def _check_configured(asked: Asked, name: str, url: str) -> None:
    said = ((asked.configured.replicas if asked.configured else None) or {}).get(name)
    if said is not None and asked.place(said).url != asked.place(url).url:
        raise UsageError(f"archives.yaml says that replica {name} of {asked.word} is at {said}: one of both is wrong")


def _archive_at(place: ObjectStore) -> Archive | None:
    try:
        place.head(IDENTITY_KEY)
    except ObjectNotFound:
        return None
    return Archive.open(place, recovering=True)


def _logs(asked: Asked) -> dict[str, LogState]:
    return {log.archive: log for log in asked.coordination.run(log_states)}


def _add_first(asked: Asked, place: ObjectStore, there: Archive, name: str, wait: float) -> dict[str, Any]:
    if asked.word is not None:
        _check_meant(asked, place, there)
    log = membership.begin_membership(asked.coordination, place, name, wait=wait)
    return _added_value(log, name, place, first=True)


def _check_meant(asked: Asked, place: ObjectStore, there: Archive) -> None:
    """Check that an archive unknown to the store is the one that --archive names."""
    try:
        meant = asked.log()
    except UsageError:
        if asked.configured or asked.word in (there.identity.id, there.identity.name):
            return
        raise
    raise UsageError(
        f"{place.url} holds another archive ({there.identity.name}, {there.identity.id}) than {meant.name} "
        f"({meant.archive}): a replica begins at an empty place"
    )


def _add(
    asked: Asked, place: ObjectStore, there: Archive | None, name: str, wait: float, output: Output
) -> dict[str, Any]:
    logs = _logs(asked)
    if not logs:
        raise UsageError(
            f"{place.url} holds no archive, and {asked.coordination.url} knows none yet: the first replica is an "
            "archive that exists ('holdfast init' makes one)"
        )
    log = logs[there.identity.id] if there is not None and asked.word is None else asked.log()
    before = asked.coordination.run(lambda c: replicas(c, log.archive))
    membership.add(asked.coordination, log.archive, name, place.url, wait=wait, places=asked.place)
    if any(row.name == name and not row.is_lost for row in before):
        output.say(f"{place.url} is replica {name} already")
        return _added_value(log, name, place)
    try:
        recovered = recover_replica(asked, log, name, output, RecoveryRequest(), wait=wait)
    except (UsageError, OldStoreError):
        if all(row.name != name for row in before):  # the place cannot be one: as if it had not been asked for
            membership.remove(asked.coordination, log.archive, name, force=True, wait=wait, places=asked.place)
        raise
    return {**_added_value(log, name, place), **recovered.describe()}


def _added_value(log: LogState, name: str, place: ObjectStore, *, first: bool = False) -> dict[str, Any]:
    value = {"archive": log.archive, "name": log.name, "replica": name, "url": place.url, "store": log.store}
    return {**value, "first": first, "from": None, "files": 0, "bytes": 0, "kept": 0}


def _added(value: dict[str, Any]) -> str:
    said = f"{value['url']} is replica {value['replica']} of {value['name']}"
    if value["first"]:
        return f"{said}, the first one; its update log is in store {value['store']}"
    return f"{said}; {brought(value)}" if value["from"] else said


def elect(
    name: AnyReplica = None,
    lose_entries: Annotated[
        bool,
        typer.Option("--lose-entries", help="Give up entries that it does not have and the log has no longer."),
    ] = False,
    lose_acknowledged: Annotated[
        bool, typer.Option("--lose-acknowledged", help="Also those that a quorum of replicas has acknowledged.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    yes: Yes = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Elect the replica to go on with, where all are lost; without a name, show the entries that each has.

    Asks for the replica's name once more.
    """
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        log = asked.log()
        if name is None:
            _show_candidates(asked, log, output)
            return
        asked.row(name)
        output.confirm(name, _consequence(log, name), yes=yes)
        given_up = membership.elect(
            asked.coordination,
            log.archive,
            name,
            lose_entries=lose_entries,
            lose_acknowledged=lose_acknowledged,
            places=asked.place,
            wait=wait,
        )
    value = {"archive": log.archive, "name": log.name, "elected": name, "given_up": given_up}
    words = f"{log.name} goes on with {name}; {given_up:,} entries were given up. Now: holdfast replica recover --lost"
    output.result(value, lambda console: console.print(words, markup=False))


def _consequence(log: LogState, name: str) -> str:
    return f"{log.name} goes on with what {name} has: the others are recovered from it, and lose what it has not"


def _show_candidates(asked: Asked, log: LogState, output: Output) -> None:
    rows = asked.coordination.run(lambda c: replicas(c, log.archive))
    answers = of_archive(survey({row.name: row.url for row in rows}, asked.place), log.archive)
    candidates = [_candidate(answer) for answer in answers]

    def show(console: Console) -> None:
        console.print(f"{log.name}: {log_words({'head': log.head, 'log_start': log.start})}", markup=False)
        shown = [
            (one["name"], one["url"], "?" if one["index"] is None else str(one["index"]), one["problem"] or "")
            for one in candidates
        ]
        show_rows(console, ("replica", "url", "has entries up to", ""), shown)

    output.result({"archive": log.archive, "name": log.name, "candidates": candidates}, show)


def _candidate(answer: SurveyedReplica) -> dict[str, Any]:
    index: int | None = None
    problem = "it is being recovered"
    if isinstance(answer, UnreadableReplica):
        problem = answer.problem
    elif not answer.place.recovering:
        index, problem = answer.place.index, "it was set aside" if answer.place.set_aside else ""
    return {"name": answer.name, "url": answer.url, "index": index, "problem": problem or None}


def remove(
    name: Replica,
    force: Annotated[
        bool, typer.Option("--force", help="Even where it has what no other one has, or is the last one.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Remove a replica: nothing waits for it any more. What lies at its place stays, but for a commit that says so."""
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        log, row = asked.log(), asked.row(name)
        unknown = membership.remove(asked.coordination, log.archive, name, force=force, wait=wait, places=asked.place)
    _tell_removed(output, log, row, unknown)


def forget(
    name: Replica,
    store: Store = None,
    archive: OfArchive = None,
    yes: Yes = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Remove a replica that is gone for good, and with it what only it may have: nothing asks for it any more.

    Asks for the replica's name once more. Refuses one that answers.
    """
    output = Output(as_json=as_json)
    with ask(store, archive) as asked:
        log, row = asked.log(), asked.row(name)
        (answer,) = of_archive(survey({name: row.url}, asked.place), log.archive)
        if isinstance(answer, ReadableReplica):
            raise RefusedError(
                f"replica {name} at {row.url} answers: 'holdfast replica remove {name}' removes it, and refuses where "
                "it has what no other one has"
            )
        lost = f"{log.name} goes on without {name}, which cannot be read ({answer.problem}): what only it has is lost"
        output.confirm(name, lost, yes=yes)
        unknown = membership.remove(asked.coordination, log.archive, name, force=True, wait=wait, places=asked.place)
    _tell_removed(output, log, row, unknown)


def _tell_removed(output: Output, log: LogState, row: ReplicaRow, unknown: str) -> None:
    if unknown:
        output.say(unknown)
    name = row.name
    value = {"archive": log.archive, "name": log.name, "removed": name, "url": row.url, "not_recorded": unknown or None}
    words = f"{name} is no replica of {log.name} any more; what lies at {row.url} stays there"
    output.result(value, lambda console: console.print(words, markup=False))
