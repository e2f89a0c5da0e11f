"""A made-up source and its backups, as commits alone: what a restore brings back is known for every position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

from bench.support.blocks import make_block
from holdfast.archive import Change, State
from holdfast.archive.format.block import Block, Coverage, JoinedBlock, Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import ArchiveCommit, Hold
from holdfast.archive.format.state import validate
from holdfast.archive.history import target_resolution
from holdfast.archive.history.coverage import CoveredRange, blocks_of, covered_ranges, to_of
from holdfast.archive.history.recovery_target import RecoveryTarget, target_at
from holdfast.archive.history.restore_points import RestorePoint, points_of
from holdfast.archive.history.table_bases import not_selected
from holdfast.common.lsn import show_position
from holdfast.storage import ObjectStore

SOURCE = "shop_db"

_NO_STORE = cast(ObjectStore, None)
"""Only times are looked up in a store."""


@dataclass(frozen=True)
class Write:
    """One transaction with a change of one table."""

    server: int
    lsn: int
    number: int
    table: int
    at: datetime


@dataclass
class Backups:
    """A source that is written to, backed up, and now and then taken over by another server.

    A table's rows are the numbers of the changes that were made of it on its server.

    :param followed: from each table that is followed to its entry in the publication.
    """

    state: State = field(default_factory=lambda: State.begun(2))
    now: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    lsn: int = 0x1000
    server: int = 0
    tables: set[int] = field(default_factory=lambda: {1, 2, 3})
    followed: dict[int, int] = field(default_factory=dict)
    log: list[Write] = field(default_factory=list)
    snapshots: dict[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    servers: dict[str, int] = field(default_factory=dict)
    entries: int = 0
    version: int = 1
    blocks: int = 0
    reached: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    stream_is_there: bool = False

    def wait(self, span: timedelta) -> None:
        self.now += span

    def write(self, *tables: int) -> None:
        for table in tables:
            self.lsn += 0x10
            if table in self.tables:
                self.log.append(Write(self.server, self.lsn, len(self.log), table, self.now))
        self.lsn += 0x10

    def rows(self, server: int, table: int, upto: int) -> frozenset[int]:
        return frozenset(
            each.number for each in self.log if (each.server, each.table) == (server, table) and each.lsn < upto
        )

    def full(self, *, opened: bool = False, chosen: Iterable[int] | None = None, stream: bool = True) -> Block:
        """Take a full backup; `chosen`: only of these tables; `opened`: it begins a stream."""
        if opened:
            self.stream_is_there = True
            for table in self.tables:
                self._follow(table)
            self.followed = {table: entry for table, entry in self.followed.items() if table in self.tables}
        self.write()
        has = self.tables if chosen is None else self.tables & set(chosen)
        block = self._snapshot(has)
        left_out = tuple(not_selected(_label(table)) for table in sorted(self.tables - has))
        start = show_position(self.lsn) if opened else self.state.streams.get(SOURCE, "")
        joined = self._stream(start, opened=opened) if stream and self.stream_is_there else None
        gap = "begun anew" if opened else ""
        update = {"whole": not left_out, "not_included": left_out, "stream": joined, "gap": gap}
        return self._add(block.model_copy(update=update))

    def begin_anew(self, table: int) -> Block:
        """Take a snapshot of one table, which is followed from here on."""
        self._follow(table)
        self.write()
        stream = self._stream(self.state.streams[SOURCE])
        update = {"supplement": True, "whole": False, "stream": stream}
        return self._add(self._snapshot({table}).model_copy(update=update))

    def leave(self, table: int) -> None:
        """Take a table out of the publication."""
        self.followed.pop(table, None)

    def drop(self, table: int) -> None:
        self.version += 1
        self.tables.discard(table)
        self.followed.pop(table, None)

    def fail_over(self, lsn: int) -> None:
        """Another server takes the source's place, which knows nothing of the stream."""
        self.server += 1
        self.lsn = lsn
        self.stream_is_there = False
        self.followed = {}
        self.version += 1

    def _follow(self, table: int) -> None:
        self.entries += 1
        self.followed[table] = self.entries

    def changes(self, *ends: int, is_cut: bool = True, with_sequences: bool = True) -> list[Block]:
        """Back up what has changed, in blocks that end at these positions and here; only the last tells a schema."""
        start = int(self.state.streams[SOURCE].split("/")[1], 16)
        added = []
        stops = [*sorted(each for each in set(ends) if start < each < self.lsn), self.lsn]
        for end in stops:
            tells = is_cut and end == stops[-1]
            added.append(self._changes(start, end, is_cut=tells, with_sequences=tells or with_sequences))
            start = end
        return added

    def _changes(self, start: int, end: int, *, is_cut: bool, with_sequences: bool) -> Block:
        identity = self._name()
        tables = []
        for table in sorted(self.followed):
            files = tuple(
                FileRecord(
                    path=f"data/{SOURCE}/{table}/changes/{identity}/{each.number}.parquet", size=10, sha256="0" * 64
                )
                for each in self.log
                if (each.server, each.table) == (self.server, table) and start <= each.lsn < end
            )
            if files:
                tables.append(_table(table, files))
        from_time, self.reached = self.reached, max(self.reached, self.now)
        covers = Coverage(
            from_position=show_position(start),
            to_position=show_position(end),
            from_time=from_time,
            to_time=self.reached,
        )
        sequences = FileRecord(path=f"data/{SOURCE}/schema/{identity}/sequences.json", size=3, sha256="0" * 64)
        update = {
            "kind": "changes",
            "covers": covers,
            "tables": tuple(tables),
            "stream": self._stream(show_position(start)),
            "schema_version": str(self.version),
            "is_cut": is_cut,
            "sequences": sequences if with_sequences else None,
            "ddl": (),
        }
        block = make_block(identity=identity, position=show_position(end), at=self.reached)
        self.servers[identity] = self.server
        return self._add(block.model_copy(update=update))

    def _snapshot(self, tables: Iterable[int]) -> Block:
        identity = self._name()
        self.reached = max(self.reached, self.now)
        block = make_block(identity=identity, position=show_position(self.lsn), at=self.reached)
        files = {
            table: FileRecord(path=f"data/{SOURCE}/{table}/snapshot/{identity}/0.parquet", size=100, sha256="0" * 64)
            for table in sorted(tables)
        }
        self.servers[identity] = self.server
        for table in files:
            self.snapshots[identity, table] = self.rows(self.server, table, self.lsn)
        catalog = FileRecord(path=f"data/{SOURCE}/schema/{identity}/catalog.json", size=7, sha256="0" * 64)
        update = {
            "tables": tuple(_table(table, (file,)) for table, file in files.items()),
            "schema_version": str(self.version),
            "catalog": catalog,
        }
        return block.model_copy(update=update)

    def _stream(self, position: str, *, opened: bool = False) -> Stream:
        missing = {_label(table): "it left" for table in sorted(self.tables - set(self.followed))}
        return Stream(
            slot="s",
            position=position,
            opened=opened,
            publication="s",
            publication_oid=1,
            followed=dict(self.followed),
            not_followed=missing,
        )

    def join(self, some: Sequence[Placed]) -> Block:
        """Join change blocks that follow each other."""
        identity = self._name()
        blocks = [placed.block for placed in some]
        parts = [
            JoinedBlock(
                commit=placed.commit, block=placed.block.model_copy(update={"tables": (), "transactions": None})
            )
            for placed in blocks_of(self.state, SOURCE)
            if (placed.home or placed.id) in {block.id for block in blocks}
        ]
        files: dict[str, list[FileRecord]] = {}
        for block in blocks:
            for record in block.tables:
                files.setdefault(record.id, []).extend(record.files)
        covers = blocks[-1].covers.model_copy(
            update={"from_position": blocks[0].covers.from_position, "from_time": blocks[0].covers.from_time}
        )
        joined = blocks[-1].model_copy(
            update={
                "id": identity,
                "covers": covers,
                "parts": tuple(parts),
                "tables": tuple(_table(int(table), tuple(found)) for table, found in sorted(files.items())),
            }
        )
        self.servers[identity] = self.servers[blocks[0].id]
        self._commit(Change(kind="compaction", add=(joined,), remove=tuple(block.id for block in blocks)))
        return joined

    def consolidate(self, end: Placed) -> Block:
        """Make a full snapshot of what is here at the end of a change block that tells a schema."""
        block, position = end.block, to_of(end.block)
        identity = self._name()
        moment = self.moment(f"commit:{end.commit}")
        server = self.servers[end.id]
        for table in moment.tables():
            self.snapshots[identity, int(table)] = self.rows(server, int(table), position)
        self.servers[identity] = server
        stream = block.stream.model_copy(update={"position": block.covers.to_position}) if block.stream else None
        files = {
            table: FileRecord(path=f"data/{SOURCE}/{table}/snapshot/{identity}/0.parquet", size=100, sha256="0" * 64)
            for table in moment.tables()
        }
        made = block.model_copy(
            update={
                "id": identity,
                "kind": "snapshot",
                "covers": block.covers.model_copy(update={"from_position": None, "from_time": block.covers.to_time}),
                "stream": stream,
                "after": end.commit,
                "parts": (),
                "tables": tuple(_table(int(table), (file,)) for table, file in files.items()),
            }
        )
        return self._add(made)

    def hold(self, moment: RecoveryTarget) -> Hold:
        hold = Hold(
            id=self._name(),
            source=SOURCE,
            position=show_position(moment.position),
            at=moment.at,
            owner="me",
            reason="why not",
            created=self.now,
        )
        self._commit(Change(kind="hold", holds=(hold,)))
        return hold

    def release(self, identity: str) -> None:
        self._commit(Change(kind="release", released=(identity,)))

    def remove(self, *identities: str) -> None:
        self._commit(Change(kind="truncation", remove=identities))

    def _name(self) -> str:
        self.blocks += 1
        return f"b{self.blocks}"

    def _add(self, block: Block) -> Block:
        self._commit(Change(kind="backup", add=(block,)))
        return block

    def _commit(self, change: Change) -> None:
        validate(self.state, change)
        commit = ArchiveCommit(
            sequence=self.state.sequence + 1,
            id=f"c{self.state.sequence + 1}",
            parent=self.state.tip,
            kind=change.kind,
            format=2,
            min_reader=2,
            min_writer=2,
            fence=None,
            committed_at=self.now,
            writer="test",
            add=change.add,
            remove=change.remove,
            holds=change.holds,
            released=change.released,
        )
        self.state = self.state.after([commit])

    def intervals(self) -> tuple[CoveredRange, ...]:
        return covered_ranges(self.state, SOURCE)

    def points(self) -> list[RestorePoint]:
        return points_of(self.intervals())

    def moment(self, at: str) -> RecoveryTarget:
        return target_resolution.resolve(self.state, _NO_STORE, SOURCE, at)

    def at(self, interval: CoveredRange, position: int) -> RecoveryTarget:
        """Return a moment of an interval, also where another one has the same position."""
        return target_at(interval, SOURCE, position, interval.reached_at(position))

    def restored(self, moment: RecoveryTarget) -> dict[str, frozenset[int]]:
        """Return the rows of every table that a restore brings back which is not behind."""
        found = {}
        for name, parts in moment.tables().items():
            (file,) = parts.base.files
            block = file.path.split("/")[-2]
            changed = (int(file.path.split("/")[-1].split(".")[0]) for record in parts.changes for file in record.files)
            by_number = {each.number: each for each in self.log}
            rows = {number for number in changed if parts.since <= by_number[number].lsn < moment.position}
            if not parts.stale:
                found[name] = self.snapshots[block, int(name)] | rows
        return found

    def truth(self, moment: RecoveryTarget, names: Iterable[str]) -> dict[str, frozenset[int]]:
        """Return what tables held at a moment on the server that it is of."""
        server = self.servers[moment.full.id]
        return {name: self.rows(server, int(name), moment.position) for name in names}


def _label(table: int) -> str:
    return f"public.t{table}"


def _table(table: int, files: tuple[FileRecord, ...]) -> TableRecord:
    return TableRecord(id=str(table), table_schema="public", name=f"t{table}", rows=len(files), digest="", files=files)
