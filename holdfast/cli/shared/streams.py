"""The streams of changes of a source that a command names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive import Archive
from holdfast.archive.history.restore_points import waiting_tables
from holdfast.cli.shared import places
from holdfast.operations.backup_decision import expected_stream, newest_with_stream
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import stream_name
from holdfast.postgresql.setup.stream_rights import streams_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.archive.format.block import WaitingTable
    from holdfast.archive.format.state import State
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.stream_state import ExpectedStream
    from holdfast.postgresql.setup.grants import Plan


def stream_names(source: str, archive: str | None, database: str, databases: Iterable[str]) -> dict[str, str]:
    """Return the names of the streams of databases, by database; nothing where no archive is meant.

    :param source, archive: as typed; without an archive, the only one in archives.yaml that has the source.
    """
    if archive is None:
        if "://" in source:
            return {}
        archive = places.archive_having(source)
    name, _, _ = places.source(archive, source)
    identity = Archive.open(places.archive_store(archive)).identity.id
    return {each: stream_name(identity, name if each == database else each) for each in databases}


def left_streams(source: str, archive: str | None, address: Address, databases: Iterable[str]) -> dict[str, str]:
    """Return the names of the streams to drop, by database, as `stream_names` does.

    A source that was moved has left its stream in the old database, under the source's name. So where a database lacks
    the stream of its own name, it is the only one there of another source of the archive.
    """
    names = stream_names(source, archive, address.database, databases)
    if archive is None or "://" not in source:
        return names
    resolved = places.resolve(archive)
    opened = Archive.open(resolved.open())
    sources = {*opened.state.streams, *resolved.settings.sources}
    ours = {stream_name(opened.identity.id, name) for name in sources}
    for database, name in names.items():
        with connect(address.at_database(database)) as session:
            there = streams_of(session)
        ours_there = [each for each in there if each in ours]
        if name not in there and len(ours_there) == 1:
            names[database] = ours_there[0]
    return names


def expected_in(source: str, archive: str | None, name: str | None) -> ExpectedStream | None:
    """Return the stream of a name that an archive expects in a source's database; None where it follows none."""
    if name is None:
        return None
    state, source = _state(source, archive)
    newest = newest_with_stream(state, source)
    return expected_stream(state, newest, name) if newest else None


def waiting_in(source: str, archive: str | None) -> tuple[WaitingTable, ...]:
    """Return the tables of a source that wait to start over in an archive."""
    return waiting_tables(*_state(source, archive))


def _state(source: str, archive: str | None) -> tuple[State, str]:
    """Return an archive's state, and the source's name in it."""
    archive = archive or places.archive_having(source)
    name, _, _ = places.source(archive, source)
    return Archive.open(places.archive_store(archive)).state, name


def other_streams(address: Address, databases: Iterable[str], plan: Plan) -> Iterator[str]:
    """Yield a sentence about each stream in databases that a plan does not drop."""
    dropped = "".join(each for part in plan.parts for change in part.changes for each in change.statements)
    for database in databases:
        with connect(address.at_database(database)) as session:
            for name in streams_of(session):
                if name not in dropped:
                    yield f"{database} has a stream of another archive, {name}: name it with --archive to drop that"
