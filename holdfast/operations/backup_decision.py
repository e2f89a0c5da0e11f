"""The decision before a backup: its kind, and its stream of changes.

The process that starts the backup makes it. A stream is a logical replication slot and its publication on the source.
The archive records the position up to which its changes are here; the server's state must fit, else no changes can be
joined, and a full backup begins a new stream.
"""

from __future__ import annotations

import os
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
"""Of the log that a slot may hold back before there is a warning."""


class Postponed(Document):
    """The reason why no table can start over in an incremental backup.

    :param reason: in words.
    :param act: somebody has to do something about it; else another try may help.
    """

    reason: str
    act: bool = False

    @classmethod
    def by(cls, error: BaseException) -> Postponed:
        """Return the postponement that an error causes."""
        return cls(reason=sentence(error), act=is_to_act(exit_code_of(error)))


def is_to_act(exit_code: int) -> bool:
    """Return whether an error recurs at every try: of wrong use, of damage, a refusal."""
    return exit_code in (2, 4, 5)


class Decision(Document):
    """The decision on a backup; it travels to the job's driver.

    :param kind: "changes", or "snapshot" for a full backup.
    :param stream: as it is on the server; None where changes are not followed.
    :param gap: why a full backup begins a new stream.
    :param database_oid: of the source's database, as it was looked at.
    :param begins: of changes: those up to the snapshot that the job was given, in which it reads
        the tables that start over.
    :param postponed: why tables that are to start over have to wait; None: they need not, and changes that such tables
        come with are backed up together with these.
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

        It goes by a file: it names each table that is followed, and a variable has 128 KiB at most (execve(2)).
        """
        with tempfile.NamedTemporaryFile("w", prefix="holdfast-decision-", suffix=".json") as file:
            file.write(self.model_dump_json())
            file.flush()
            yield {DECISION_VARIABLE: file.name}

    @classmethod
    def given(cls) -> Decision:
        """Return the decision that this process was handed; without one, that on a full backup.

        :raises UsageError: there is a file, and it describes none.
        """
        name = os.environ.get(DECISION_VARIABLE)
        if name is None:
            return cls()
        try:
            return cls.model_validate_json(Path(name).read_text())
        except (OSError, ValueError) as error:
            raise UsageError("this describes no backup: start jobs by command or operator") from error


def newest_with_stream(state: State, source: str) -> Placed | None:
    """Return a source's newest block with a record of its stream.

    Of one commit, the snapshot behind the changes.
    """
    found = [placed for placed in blocks_of(state, source) if placed.head.stream]
    return max(reversed(found), key=lambda placed: placed.number, default=None)


def decide(store: ObjectStore, address: Address, wanted: BackupRequest, say: Callable[[str], None]) -> Decision:
    """Decide on a backup, and prepare the source's publication and slot.

    :param say: is told what people should know.
    :raises RefusedError: the address names another database than that of the backups that are here.
    :raises RefusedError: changes are wanted and the source cannot be followed; names all that is in the way.
    :raises BusyError: open transactions kept the slot from being made.
    """
    archive = Archive.open(store)
    with connect(address) as session:
        for remark in superuser(session):
            say(f"{remark.what}: {remark.do}")
        for warning in filter(None, (address.tls.warning(), reads_with_replication(address))):
            say(warning)
        return _decide(archive, address, session, wanted, say)


def _decide(
    archive: Archive, address: Address, session: Connection, wanted: BackupRequest, say: Callable[[str], None]
) -> Decision:
    known = newest_with_stream(archive.state, wanted.source)
    database_oid, moved = _check_database(archive.state, address, session, wanted)
    name = streams.stream_name(archive.identity.id, wanted.source)
    if known is None and wanted.kind != "changes":
        _tell_what_is_left(session, name, say)
        return Decision()
    catalog = read_catalog(session, read_tables(session), values=False)
    tables = catalog.with_rows(wanted.tables, wanted.exclude)
    gap = ""
    if known is not None:
        gap = _why_broken(session, name, archive.state, known) or moved or _why_restart(wanted)
        if not gap:
            if wanted.kind != "full":  # where the changes of a stream that is there cannot be read
                refuse(why_no_decoding(session))
            left_out = {table.oid for table in catalog.with_rows()} - {table.oid for table in tables}
            stream = without(_kept(session, name, known, tables, wanted, say), set() if wanted.chosen else left_out)
            born = born_tables(session, archive.state, wanted.source, stream)
            stream = stream.model_copy(update={"born": born})
            return Decision(kind=_KINDS[wanted.kind], stream=stream, database_oid=database_oid)
        gap = why_given_up(archive, wanted.source, known.commit) or gap
        say(f"no changes can be joined to what is here: {gap}")
        if wanted.kind == "full" and wanted.restart == "no":
            return Decision(gap=gap)
    say("a full backup begins to follow the source's changes")
    try:
        state = streams.open_stream(address, name, tables)
    except RefusedError as error:
        raise RefusedError(f"{error}. A full backup that follows nothing needs none of that: --kind full") from error
    return Decision(stream=describe_stream(state, opened=True), gap=gap)


def _check_database(
    state: State, address: Address, session: Connection, wanted: BackupRequest
) -> tuple[int | None, str]:
    """Check that the address names the database of the earlier backups, or that --moved is given.

    Returns the database's oid, and the difference from before where it is the same one elsewhere; of a first backup
    nothing.
    """
    blocks = blocks_of(state, wanted.source)
    if not blocks:
        _check_new_source(state, address, wanted)
        return None, ""
    system, oid = system_identifier(session), database_oid(session)
    other = _why_other(blocks[-1].head.source, system, oid, address.database)
    if other and not wanted.moved:
        raise RefusedError(
            f"{address.url} is not the database that the backups of {wanted.source} here are of: {other}. Mend the "
            "address, or name the source otherwise; if it is the same database elsewhere (restored, upgraded, moved), "
            "say so with --moved"
        )
    return oid, f"the database was moved: {other}" if other else ""


def _check_new_source(state: State, address: Address, wanted: BackupRequest) -> None:
    """Refuse a source that nobody has called a new one: a wrong address would make it, and its backups look right."""
    others = source_names(state)
    if others and not wanted.new_source:
        raise RefusedError(
            f"the archive has backups of {named(others)}, and none of a source {wanted.source!r}: correct the address "
            f"({address.url}). To add the source, say --new-source, or name it in archives.yaml"
        )


def _why_other(record: SourceRecord, system: str, oid: int, name: str) -> str:
    """Return the difference between a database and the one of a block; "" where there is none."""
    if record.system_identifier not in (None, system):
        return f"its server is system {system}, and theirs is {record.system_identifier}"
    if record.database_oid is None:
        return f"it is called {name}, and theirs is {record.database}" if record.database != name else ""
    return f"its oid is {oid}, and theirs is {record.database_oid}" if record.database_oid != oid else ""


def _why_restart(wanted: BackupRequest) -> str:
    if wanted.restart != "now":
        return ""
    return f"a new stream was begun: {wanted.stuck or 'somebody asked for it (--restart-stream)'}"


def _tell_what_is_left(session: Connection, name: str, say: Callable[[str], None]) -> None:
    """Report a slot of a first backup that ended before its commit.

    Nobody reads the slot, and it keeps the log.
    """
    found = session.execute("select from pg_catalog.pg_replication_slots where slot_name = %s", (name,)).fetchone()
    if found is not None:
        say(
            f"slot {name} is there, but no backup here follows it, and the server keeps its log for it: "
            "begin to follow the source with --kind changes, or drop it with holdfast source remove"
        )


def expected_stream(state: State, known: Placed, name: str) -> ExpectedStream | None:
    """Return the state of a stream that can continue the archive's changes; None where none can.

    :param known: the newest block with a record of it.
    """
    block = known.head
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


def _why_broken(session: Connection, name: str, state: State, known: Placed) -> str:
    if known.head.stream is None:
        return ""
    if (expected := expected_stream(state, known, name)) is None:
        return f"the changes before the full backup of commit {known.number} were given up"
    return why_broken(expected, look(session, name), system_identifier(session))


_KINDS: Mapping[Kind, Literal["snapshot", "changes"]] = {"auto": "changes", "changes": "changes", "full": "snapshot"}
"""What is made of a source that is followed."""


def _kept(
    session: Connection,
    name: str,
    known: Placed,
    tables: Sequence[Table],
    wanted: BackupRequest,
    say: Callable[[str], None],
) -> Stream:
    """Make a stream follow the wanted tables, as far as that is possible now."""
    state = look(session, name)
    if state is None or known.block.stream is None:
        raise HoldfastError(f"slot {name} was dropped by somebody just now: start again")
    if warning := retention_warning(state, wanted.max_retained_bytes or MAX_RETAINED_BYTES):
        say(warning)
    if not wanted.chosen:
        try:
            return describe_stream(streams.keep(session, name, tables))
        except (BusyError, RefusedError) as error:
            # The other tables' changes are backed up all the same, so that the log they are in can go.
            say(f"what is followed stays as it is for now: {error}")
    return describe_stream(state).model_copy(update={"not_followed": known.block.stream.not_followed})


def without(stream: Stream, left_out: Collection[int]) -> Stream:
    """Return a stream without some of its tables.

    A partition is published with its root, also where it is not wanted.
    """
    followed = {oid: entry for oid, entry in stream.followed.items() if oid not in left_out}
    return stream.model_copy(update={"followed": followed})


def born_tables(session: Connection, state: State, source: str, stream: Stream) -> tuple[Born, ...]:
    """Return the followed tables created since the archive's newest record of the source."""
    tip = stream_tip(state, source)
    if tip is None or not tip.head.is_cut or tip.head.stream is None or not tip.head.stream.snapshot:
        return ()
    found = streams.born_since(session, stream.publication_oid, tip.head.stream.snapshot)
    return tuple(Born(**each._asdict()) for each in found if each.oid in stream.followed)


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
