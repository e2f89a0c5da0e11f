"""`holdfast replica`: an archive at several places that follow one update log. Works with Airflow down."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.model import iso
from holdfast.cli import places
from holdfast.cli.options import Json, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.output import Output, human_size
from holdfast.config import Name, find_config, load_config
from holdfast.errors import UsageError, exit_code_of, sentence
from holdfast.replication import membership, recovery, trimming
from holdfast.replication import status as standing
from holdfast.replication.replicas import add as add_row
from holdfast.replication.replicas import log_states, lost, replica, replicas
from holdfast.replication.replicas import remove as remove_row
from holdfast.replication.store import ENVIRONMENT, opened
from holdfast.replication.upkeep import log_at, sync_replica
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from holdfast.config import ArchiveConfig
    from holdfast.replication.recovery import Recovered
    from holdfast.replication.replica import Synced
    from holdfast.replication.replicas import LogState, ReplicaRow
    from holdfast.replication.status import ArchiveStatus, ReplicaStatus
    from holdfast.replication.store import CoordinationStore
    from holdfast.storage import ObjectStore

replica_app = typer.Typer(
    name="replica",
    help="An archive at several places: replicas that follow one update log, which a coordination store keeps.",
    no_args_is_help=True,
)

Store = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The coordination store: sqlite:////path/file.db or postgresql://user@host:port/database, without a "
        f"password. Default is {ENVIRONMENT}, then 'store' in archives.yaml.",
    ),
]
OfArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ARCHIVE",
        help="The archive: its name in archives.yaml or in the store, or its id. Default is the only one in the store.",
    ),
]
Replica = Annotated[str, typer.Argument(metavar="NAME", help="The replica's name, as 'replica status' shows it.")]
AnyReplica = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The replica's name, as 'replica status' shows it.")
]


@dataclass(frozen=True)
class _Asked:
    """What the options of a command name.

    :param word: what --archive says; `configured`: what archives.yaml says of that.
    """

    coordination: CoordinationStore
    word: str | None
    configured: ArchiveConfig | None

    def log(self) -> LogState:
        """Return the log of the archive that is meant.

        :raises UsageError: the store has none, or several.
        """
        if self.configured is not None and self.configured.replicas:
            urls = {self.place(url).url for url in self.configured.replicas.values()}
            return log_at(self.coordination, urls)
        return membership.only_archive(self.coordination, self.word)

    def row(self, name: str) -> ReplicaRow:
        """Return what the store knows of a replica."""
        archive = self.log().archive
        return self.coordination.run(lambda c: replica(c, archive, name))

    def place(self, url: str) -> ObjectStore:
        """Return the place of a replica, opened by the key that archives.yaml says of its archive."""
        return places.archive_store(url, default_key=self.configured.key if self.configured else None)


def _archives() -> dict[str, ArchiveConfig]:
    path = find_config()
    return load_config(path).archives if path else {}


@contextmanager
def _asked(store: str | None, archive: str | None, *, create: bool = False) -> Iterator[_Asked]:
    """Open the coordination store that the options, the environment or archives.yaml name."""
    known = _archives()
    configured = known.get(archive) if archive else None
    address = store or os.environ.get(ENVIRONMENT)
    if not address:
        said = {each.store for each in ([configured] if configured else known.values()) if each.store}
        address = said.pop() if len(said) == 1 else None
    with opened(address, create=create) as coordination:
        yield _Asked(coordination, archive, configured)


@replica_app.command(name="add")
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
    with _asked(store, archive, create=True) as asked:
        _check_configured(asked, name, url)
        place = asked.place(url)
        there = _archive_at(place)
        if there is not None and there.identity.id not in _known(asked):
            value = _found(asked, place, there, name, wait)
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


def _check_configured(asked: _Asked, name: str, url: str) -> None:
    """Make sure that archives.yaml and the command mean the same place."""
    said = ((asked.configured.replicas if asked.configured else None) or {}).get(name)
    if said is not None and asked.place(said).url != asked.place(url).url:
        raise UsageError(f"archives.yaml says that replica {name} of {asked.word} is at {said}: one of both is wrong")


def _archive_at(place: ObjectStore) -> Archive | None:
    try:
        place.head(IDENTITY_KEY)
    except ObjectNotFound:
        return None
    return Archive.open(place, recovering=True)


def _known(asked: _Asked) -> dict[str, LogState]:
    return {log.archive: log for log in asked.coordination.run(log_states)}


def _found(asked: _Asked, place: ObjectStore, there: Archive, name: str, wait: float) -> dict[str, Any]:
    """Make an archive that the store does not know the first replica."""
    if asked.word is not None:
        _check_meant(asked, place, there)
    log = membership.found(asked.coordination, place, name, wait=wait)
    return _added_value(log, name, place, first=True)


def _check_meant(asked: _Asked, place: ObjectStore, there: Archive) -> None:
    """Make sure that an archive which the store does not know is the one that --archive says."""
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
    asked: _Asked, place: ObjectStore, there: Archive | None, name: str, wait: float, output: Output
) -> dict[str, Any]:
    """Make a place a replica of an archive that the store knows."""
    known = _known(asked)
    if not known:
        raise UsageError(
            f"{place.url} holds no archive, and {asked.coordination.url} knows none yet: the first replica is an "
            "archive that exists ('holdfast init' makes one)"
        )
    log = known[there.identity.id] if there is not None and asked.word is None else asked.log()
    before = asked.coordination.run(lambda c: replicas(c, log.archive))
    asked.coordination.run(lambda c: add_row(c, log.archive, name=name, url=place.url))
    if any(row.name == name and not row.is_lost for row in before):
        output.say(f"{place.url} is replica {name} already")
        return _added_value(log, name, place)
    try:
        done = _recover(asked, log, name, output, wait=wait)
    except UsageError:
        if all(row.name != name for row in before):  # the place cannot be one: as if it had not been asked for
            asked.coordination.run(lambda c: remove_row(c, log.archive, name))
        raise
    return {**_added_value(log, name, place), **_recovered_value(done)}


def _added_value(log: LogState, name: str, place: ObjectStore, *, first: bool = False) -> dict[str, Any]:
    value = {"archive": log.archive, "name": log.name, "replica": name, "url": place.url, "store": log.store}
    return {**value, "first": first, "from": None, "files": 0, "bytes": 0, "kept": 0}


def _added(value: dict[str, Any]) -> str:
    said = f"{value['url']} is replica {value['replica']} of {value['name']}"
    if value["first"]:
        return f"{said}, the first one; its update log is in store {value['store']}"
    return f"{said}; {_brought(value)}" if value["from"] else said


@replica_app.command(name="status")
def status(store: Store = None, archive: OfArchive = None, as_json: Json = False) -> None:
    """Tell how far each replica is, who acts for it, and which are lost; the replicas themselves are not asked."""
    output = Output(as_json=as_json)
    with _asked(store, archive) as asked:
        chosen = asked.log().archive if archive else None
        found = asked.coordination.run(lambda c: standing.status(c, chosen))
        where = asked.coordination.url
    value = {"archives": [_archive_value(each) for each in found]}
    output.result(value, lambda console: _show(console, value["archives"], where))


def _archive_value(each: ArchiveStatus) -> dict[str, Any]:
    log = each.log
    return {
        "archive": log.archive,
        "name": log.name,
        "store": log.store,
        "head": log.head,
        "log_start": log.start,
        "replicas": [_replica_value(one) for one in each.replicas],
    }


def _replica_value(one: ReplicaStatus) -> dict[str, Any]:
    row = one.row
    return {
        "name": row.name,
        "url": row.url,
        "pointer": row.pointer,
        "entries_behind": one.entries,
        "bytes_behind": one.size,
        "seconds_behind": round(one.seconds, 1),
        "epoch": row.epoch,
        "lease_s": round(one.lease_s, 1),
        "active": one.lease_s > 0,
        "active_until": iso(datetime.fromtimestamp(row.active_until, UTC)) if row.active_until else None,
        "lost": row.is_lost,
        "lost_reason": row.lost_reason or None,
        "recovers_from": row.recovers_from or None,
    }


def _show(console: Console, archives: list[dict[str, Any]], where: str) -> None:
    for each in archives:
        console.print(
            f"{each['name']} ({each['archive']}): {_log_words(each)}, in store {each['store']}",
            markup=False,
        )
        head = ("replica", "url", "behind", "epoch", "state")
        _show_rows(
            console, head, [(r["name"], r["url"], _behind(r), str(r["epoch"]), _lease(r)) for r in each["replicas"]]
        )
    if not archives:
        console.print(f"no archive has replicas in {where}", markup=False)


def _show_rows(console: Console, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table whose lines are as long as they must be: what is cut short could not be asked for."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(f" {line}".rstrip(), markup=False)


def _log_words(each: dict[str, Any]) -> str:
    if not each["head"]:
        return "no entries yet"
    start = f"those from {each['log_start']} on" if each["log_start"] <= each["head"] else "none any more"
    return f"entries up to {each['head']}, of which the log has {start}"


def _behind(one: dict[str, Any]) -> str:
    if not one["entries_behind"]:
        return "nothing"
    return f"{one['entries_behind']:,} entries, {human_size(one['bytes_behind'])}, {one['seconds_behind']:.0f} s"


def _lease(one: dict[str, Any]) -> str:
    if one["recovers_from"]:
        return f"lost, being recovered from {one['recovers_from']}" + ("" if one["active"] else ", but that has died")
    if one["lost"]:
        return f"lost: {one['lost_reason']}"
    if one["active"]:
        return f"active, for {one['lease_s']:.0f} s"
    return f"inactive since {one['active_until']}" if one["active_until"] else "not active yet"


@replica_app.command(name="sync")
def sync(
    name: AnyReplica = None,
    every: Annotated[
        bool, typer.Option("--all", help="Each replica that is not lost, whatever becomes of one.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Execute what the log has beyond a replica: fetch the files of each entry, and commit it."""
    output = Output(as_json=as_json)
    _one_or(name, every, "--all")
    with _asked(store, archive) as asked:
        log = asked.log()
        rows = asked.coordination.run(lambda c: replicas(c, log.archive))
        for row in rows if every else ():
            if row.is_lost:
                output.say(f"not synced: {sentence(lost(row))}")
        chosen = [row for row in rows if not row.is_lost] if every else [asked.row(name or "")]
        _each(
            chosen,
            lambda row: _synced_value(
                sync_replica(asked.coordination, log.archive, row, wait=wait, places=asked.place)
            ),
            _synced,
            output,
            go_on=every,
        )


def _one_or(name: str | None, every: bool, option: str) -> None:
    if (name is None) != every:
        raise UsageError(f"say either the name of a replica or {option}")


def _each(
    rows: Sequence[ReplicaRow],
    work: Callable[[ReplicaRow], dict[str, Any]],
    words: Callable[[dict[str, Any]], str],
    output: Output,
    *,
    go_on: bool,
) -> None:
    """Do something for each replica and give the results; ends with the code of the first failure.

    :param go_on: with the next one where one fails, which is said; else that is the failure of the command.
    """
    values: list[dict[str, Any]] = []
    codes: list[int] = []
    for row in rows:
        try:
            values.append(work(row))
        except Exception as error:
            if not go_on:
                raise
            codes.append(exit_code_of(error))
            output.say(f"holdfast: {row.name}: {sentence(error)}")
            values.append({"replica": row.name, "error": sentence(error), "exit_code": codes[-1]})

    def show(console: Console) -> None:
        for value in values:
            if "error" not in value:
                console.print(words(value), markup=False)

    output.result({"replicas": values}, show)
    if codes:
        raise typer.Exit(codes[0])


def _synced_value(done: Synced) -> dict[str, Any]:
    return {
        "replica": done.replica,
        "index": done.index,
        "entries": done.entries,
        "files": done.files,
        "bytes": done.size,
    }


def _synced(value: dict[str, Any]) -> str:
    if not value["entries"]:
        return f"{value['replica']}: at entry {value['index']}, nothing to do"
    return (
        f"{value['replica']}: at entry {value['index']}; {value['entries']:,} executed, "
        f"{value['files']:,} files ({human_size(value['bytes'])}) fetched"
    )


@replica_app.command(name="trim")
def trim(
    min_keep: Annotated[
        int, typer.Option(metavar="N", min=0, help="So many of the newest entries stay in any case.")
    ] = trimming.MIN_KEEP,
    max_keep: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="So many are kept for a replica that is away; then it becomes lost."),
    ] = trimming.MAX_KEEP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
    store: Store = None,
    archive: OfArchive = None,
    as_json: Json = False,
) -> None:
    """Remove entries of the log that no replica needs any more."""
    output = Output(as_json=as_json)
    with _asked(store, archive) as asked:
        log = asked.log()
        done = trimming.trim(asked.coordination, log.archive, min_keep=min_keep, max_keep=max_keep, dry_run=dry_run)
    value = {
        "archive": log.archive,
        "name": log.name,
        "log_start": done.start,
        "removed": done.removed,
        "lost": list(done.lost),
        "waits_for": list(done.waits_for),
        "dry_run": dry_run,
    }
    output.result(value, lambda console: console.print(_trimmed(value), markup=False))


def _trimmed(value: dict[str, Any]) -> str:
    would = "would begin" if value["dry_run"] else "begins"
    said = [f"{value['removed']:,} entries; the log {would} at {value['log_start']}"]
    said += [f"{', '.join(value['waits_for'])} still needs that one"] if value["waits_for"] else []
    said += [f"lost by it: {', '.join(value['lost'])}"] if value["lost"] else []
    return f"{'would remove' if value['dry_run'] else 'removed'} {'; '.join(said)}"


@replica_app.command(name="recover")
def recover(
    name: AnyReplica = None,
    every: Annotated[bool, typer.Option("--lost", help="Each replica that is lost, whatever becomes of one.")] = False,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Copy from this one. Default is the one that is furthest."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Take files that are there in their size as whole, without reading them.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Make a lost replica anew from another one: only what is missing is copied; stopped, it goes on when run again."""
    output = Output(as_json=as_json)
    _one_or(name, every, "--lost")
    with _asked(store, archive) as asked:
        log = asked.log()
        rows = asked.coordination.run(lambda c: replicas(c, log.archive))
        chosen = [row for row in rows if row.is_lost] if every else [asked.row(name or "")]
        if not chosen:
            output.say("no replica is lost")

        def work(row: ReplicaRow) -> dict[str, Any]:
            return _recovered_value(_recover(asked, log, row.name, output, source=source, deep=not quick, wait=wait))

        _each(chosen, work, lambda value: f"{value['replica']}: {_brought(value)}", output, go_on=every)


def _recover(
    asked: _Asked,
    log: LogState,
    name: str,
    output: Output,
    *,
    source: str | None = None,
    deep: bool = True,
    wait: float,
) -> Recovered:
    output.say(f"making {name} anew{f' from {source}' if source else ''}: files that are missing are copied")
    return recovery.recover(
        asked.coordination, log.archive, name, source=source, deep=deep, wait=wait, places=asked.place
    )


def _recovered_value(done: Recovered) -> dict[str, Any]:
    return {
        "replica": done.replica,
        "from": done.source,
        "index": done.index,
        "files": done.files,
        "bytes": done.size,
        "kept": done.kept,
        "aside": list(done.aside),
    }


def _brought(value: dict[str, Any]) -> str:
    aside = f"; {len(value['aside'])} blocks that only it had are kept aside" if value["aside"] else ""
    return (
        f"{value['files']:,} files ({human_size(value['bytes'])}) copied from {value['from']}, {value['kept']:,} were "
        f"there; at entry {value['index']}{aside}"
    )


@replica_app.command(name="elect")
def elect(
    name: AnyReplica = None,
    lose_entries: Annotated[
        bool,
        typer.Option("--lose-entries", help="Give up entries that it does not have and the log has no longer."),
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Where all replicas are lost, make one of them the one to go on with; without a name, show what each has."""
    output = Output(as_json=as_json)
    with _asked(store, archive) as asked:
        log = asked.log()
        if name is None:
            _show_candidates(asked, log, output)
            return
        given_up = membership.elect(
            asked.coordination, log.archive, name, lose_entries=lose_entries, places=asked.place, wait=wait
        )
    value = {"archive": log.archive, "name": log.name, "elected": name, "given_up": given_up}
    words = f"{log.name} goes on with {name}; {given_up:,} entries were given up. Now: holdfast replica recover --lost"
    output.result(value, lambda console: console.print(words, markup=False))


def _show_candidates(asked: _Asked, log: LogState, output: Output) -> None:
    found = membership.candidates(asked.coordination, log.archive, asked.place)
    values = [
        {"name": each.name, "url": each.url, "index": each.index, "problem": each.problem or None} for each in found
    ]

    def show(console: Console) -> None:
        console.print(f"{log.name}: {_log_words({'head': log.head, 'log_start': log.start})}", markup=False)
        head = ("replica", "url", "has entries up to", "")
        _show_rows(
            console,
            head,
            [(each.name, each.url, "?" if each.index is None else str(each.index), each.problem) for each in found],
        )

    output.result({"archive": log.archive, "name": log.name, "candidates": values}, show)


@replica_app.command(name="remove")
def remove(
    name: Replica,
    force: Annotated[
        bool, typer.Option("--force", help="Even where it has what no other one has, or is the last one.")
    ] = False,
    store: Store = None,
    archive: OfArchive = None,
    as_json: Json = False,
) -> None:
    """Forget a replica: nothing waits for it any more. What lies at its place is not changed."""
    output = Output(as_json=as_json)
    with _asked(store, archive) as asked:
        log, row = asked.log(), asked.row(name)
        asked.coordination.run(lambda c: remove_row(c, log.archive, name, force=force))
    value = {"archive": log.archive, "name": log.name, "removed": name, "url": row.url}
    words = f"{name} is no replica of {log.name} any more; what lies at {row.url} was not changed"
    output.result(value, lambda console: console.print(words, markup=False))
