"""The decision before a backup: its kind, and its stream of changes.

A stream is a logical replication slot and its publication on the source. The archive records the position that its
changes reach; if the server's state does not fit that, a full backup begins a new stream.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.archive import Archive
from holdfast.archive.format.block import Born, Stream
from holdfast.archive.format.document import Document
from holdfast.archive.history.coverage import blocks_of, stream_tip
from holdfast.archive.history.restore_points import source_names
from holdfast.archive.maintenance.abandoned_backups import why_given_up
from holdfast.common.errors import BusyError, HoldfastError, RefusedError, UsageError, exit_code_of, sentence
from holdfast.common.words import named
from holdfast.operations.job_process import DECISION_VARIABLE
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.reading_role import reads_with_replication
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from holdfast.postgresql.logical.stream_state import (
    ExpectedStream,
    database_oid,
    look,
    retention_warning,
    system_identifier,
    why_broken,
)
from holdfast.postgresql.setup.readiness import superuser
from holdfast.postgresql.snapshot.export import why_no_decoding
from holdfast.postgresql.snapshot.obstacles import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from holdfast.archive.format.block import SourceRecord
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.operations.requests.backup import BackupRequest, Kind
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.logical.stream_state import StreamState
    from holdfast.storage import ObjectStore

MAX_RETAINED_BYTES = 10 << 30
"""The most of the log that a slot may hold back without a warning."""


class Postponed(Document):
    """The reason why no table can start over in an incremental backup.

    :param act: it needs a person; otherwise another try may help.
    """

    reason: str
    act: bool = False

    @classmethod
    def by(cls, error: BaseException) -> Postponed:
        return cls(reason=sentence(error), act=is_to_act(exit_code_of(error)))


def is_to_act(exit_code: int) -> bool:
    """Return whether an exit code's error recurs at every try: wrong use, damage, a refusal."""
    return exit_code in (2, 4, 5)


class Decision(Document):
    """The decision on a backup; it travels to the job's driver.

    :param kind: "changes", or "snapshot" for a full backup.
    :param stream: the stream on the server, if changes are followed.
    :param gap: why a full backup begins a new stream.
    :param begins: back up changes up to the given snapshot, and read there the tables that start over.
    :param postponed: why tables that start over must wait; None: they are backed up together with the changes.
    """

    kind: Literal["snapshot", "changes"] = "snapshot"
    stream: Stream | None = None
    gap: str = ""
    database_oid: int | None = None
    begins: bool = False
    postponed: Postponed | None = None

    @contextmanager
    def handed_over(self) -> Iterator[Mapping[str, str]]:
        """Yield the environment that hands it to a job's driver; it holds no secret.

        It names a file, since the decision names each table and a variable has 128 KiB at most (execve(2)).
        """
        with tempfile.NamedTemporaryFile("w", prefix="holdfast-decision-", suffix=".json") as file:
            file.write(self.model_dump_json())
            file.flush()
            yield {DECISION_VARIABLE: file.name}

    @classmethod
    def read(cls, file: str | None) -> Decision:
        """Return the decision that was handed over in a file, else that on a full backup."""
        if file is None:
            return cls()
        try:
            return cls.model_validate_json(Path(file).read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} describes no backup: start jobs with a command or an operator") from error


def newest_with_stream(state: State, source: str) -> Placed | None:
    """Return a source's newest block with a record of its stream; of one commit, the snapshot after the changes."""
    recorded = [placed for placed in blocks_of(state, source) if placed.head.stream]
    return max(reversed(recorded), key=lambda placed: placed.number, default=None)


def decide(store: ObjectStore, address: Address, request: BackupRequest, say: Callable[[str], None]) -> Decision:
    """Decide on a backup, and prepare the source's publication and slot.

    :raises RefusedError: the address names another database than that of the archive's backups; or changes are
        requested and the source cannot be followed: names all obstacles.
    :raises BusyError: open transactions kept the slot from being made.
    """
    archive = Archive.open(store)
    with connect(address) as session:
        for remark in superuser(session):
            say(f"{remark.what}: {remark.do}")
        for warning in filter(None, (address.tls.warning(), reads_with_replication(address))):
            say(warning)
        return _decide(archive, address, session, request, say)


def _decide(
    archive: Archive, address: Address, session: Connection, request: BackupRequest, say: Callable[[str], None]
) -> Decision:
    newest = newest_with_stream(archive.state, request.source)
    database_oid, moved = _check_database(archive.state, address, session, request)
    name = streams.stream_name(archive.identity.id, request.source)
    if newest is None and request.kind != "changes":
        _report_unused_slot(session, name, say)
        return Decision()
    catalog = read_catalog(session, read_tables(session), values=False)
    tables = catalog.with_rows(request.tables, request.exclude)
    gap = ""
    if newest is not None:
        gap = _why_broken(session, name, archive.state, newest) or moved or _why_restart(request)
        if not gap:
            if request.kind != "full":
                refuse(why_no_decoding(session))
            left_out = {table.oid for table in catalog.with_rows()} - {table.oid for table in tables}
            stream = without(_kept(session, name, newest, tables, request, say), set() if request.chosen else left_out)
            born = born_tables(session, archive.state, request.source, stream)
            stream = stream.model_copy(update={"born": born})
            return Decision(kind=_KINDS[request.kind], stream=stream, database_oid=database_oid)
        gap = why_given_up(archive, request.source, newest.commit) or gap
        say(f"no changes can be added to the archive: {gap}")
        if request.kind == "full" and request.restart == "no":
            return Decision(gap=gap)
    say("taking a full backup; later backups will be incremental")
    try:
        state = streams.open_stream(address, name, tables)
    except RefusedError as error:
        raise RefusedError(f"{error}. Without incremental backups, --kind full needs none of that") from error
    return Decision(stream=describe_stream(state, opened=True), gap=gap)


def _check_database(
    state: State, address: Address, session: Connection, request: BackupRequest
) -> tuple[int | None, str]:
    """Check that the address names the database of the earlier backups, or that --moved is given.

    Returns the database's oid, and the difference if it was moved; of a first backup nothing.
    """
    blocks = blocks_of(state, request.source)
    if not blocks:
        _check_new_source(state, address, request)
        return None, ""
    system, oid = system_identifier(session), database_oid(session)
    other = _why_other(blocks[-1].head.source, system, oid, address.database)
    if other and not request.moved:
        raise RefusedError(
            f"{address.url} is a different database from the one {request.source} was backed up from: {other}. Correct "
            "the address, or name the source differently; if it is the same database elsewhere (restored, upgraded, "
            "moved), add --moved"
        )
    return oid, f"the database was moved: {other}" if other else ""


def _check_new_source(state: State, address: Address, request: BackupRequest) -> None:
    """Refuse an unknown source without --new-source: a wrong address would add it, and its backups look right."""
    others = source_names(state)
    if others and not request.new_source:
        raise RefusedError(
            f"the archive has backups of {named(others)}, and none of a source {request.source!r}: correct the address "
            f"({address.url}). To add the source, use --new-source, or name it in archives.yaml"
        )


def _why_other(record: SourceRecord, system: str, oid: int, name: str) -> str:
    if record.system_identifier not in (None, system):
        return f"its server is system {system}, the other is {record.system_identifier}"
    if record.database_oid is None:
        return f"it is called {name}, the other is {record.database}" if record.database != name else ""
    return f"its oid is {oid}, the other is {record.database_oid}" if record.database_oid != oid else ""


def _why_restart(request: BackupRequest) -> str:
    if request.restart != "now":
        return ""
    return f"a new stream was begun: {request.stuck or 'as requested (--restart-stream)'}"


def _report_unused_slot(session: Connection, name: str, say: Callable[[str], None]) -> None:
    """Report the slot of a first backup that ended before its commit: it keeps the log."""
    slot = session.execute("select from pg_catalog.pg_replication_slots where slot_name = %s", (name,)).fetchone()
    if slot is not None:
        say(
            f"slot {name} exists, but no backup in this archive uses it, and the server keeps its log for it: use it "
            "with --kind changes, or drop it with holdfast source remove"
        )


def expected_stream(state: State, newest: Placed, name: str) -> ExpectedStream | None:
    """Return the state of a stream that can continue the archive's changes, if one can.

    :param newest: the newest block with a record of it.
    """
    block = newest.head
    position = state.streams.get(block.source.name)
    if block.stream is None or position is None:
        return None
    return ExpectedStream(
        name=name,
        position=position,
        publication_oid=block.stream.publication_oid,
        publication_version=block.stream.publication_version or None,
        system_identifier=block.source.system_identifier,
        timeline=block.source.timeline,
    )


def _why_broken(session: Connection, name: str, state: State, newest: Placed) -> str:
    if newest.head.stream is None:
        return ""
    if (expected := expected_stream(state, newest, name)) is None:
        return f"the changes before the full backup of commit {newest.number} were given up"
    return why_broken(expected, look(session, name), system_identifier(session))


_KINDS: Mapping[Kind, Literal["snapshot", "changes"]] = {"auto": "changes", "changes": "changes", "full": "snapshot"}
"""The kind of a backup of a source that is followed."""


def _kept(
    session: Connection,
    name: str,
    newest: Placed,
    tables: Sequence[Table],
    request: BackupRequest,
    say: Callable[[str], None],
) -> Stream:
    """Make a stream follow the requested tables, as far as that is possible now."""
    state = look(session, name)
    if state is None or newest.block.stream is None:
        raise HoldfastError(f"slot {name} was dropped just now: start again")
    if warning := retention_warning(state, request.max_retained_bytes or MAX_RETAINED_BYTES):
        say(warning)
    if not request.chosen:
        try:
            return describe_stream(streams.keep(session, name, tables))
        except (BusyError, RefusedError) as error:
            # Changes of the other tables are backed up, so that their log can be removed.
            say(f"the followed tables stay as they are for now: {error}")
    return describe_stream(state).model_copy(update={"not_followed": newest.block.stream.not_followed})


def without(stream: Stream, left_out: Collection[int]) -> Stream:
    """Return a stream without some of its tables: a partition is published with its root, requested or not."""
    followed = {oid: entry for oid, entry in stream.followed.items() if oid not in left_out}
    return stream.model_copy(update={"followed": followed})


def born_tables(session: Connection, state: State, source: str, stream: Stream) -> tuple[Born, ...]:
    """Return the followed tables created since the archive's newest record of the source."""
    tip = stream_tip(state, source)
    if tip is None or not tip.head.is_cut or tip.head.stream is None or not tip.head.stream.snapshot:
        return ()
    born = streams.born_since(session, stream.publication_oid, tip.head.stream.snapshot)
    return tuple(Born(**table._asdict()) for table in born if table.oid in stream.followed)


def describe_stream(state: StreamState, *, opened: bool = False) -> Stream:
    """Return the archive's record of a stream in its present state."""
    return Stream(
        slot=state.name,
        position=state.position,
        opened=opened,
        publication=state.name,
        publication_oid=state.publication_oid,
        publication_version=state.publication_version or "",
        followed=dict(state.followed),
        not_followed=dict(state.not_followed),
    )
