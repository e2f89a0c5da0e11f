"""Compaction: neighbouring small blocks of changes become one that records all that they recorded.

Nothing that can be restored changes by it: every version of every row stays, each block that was joined is kept as a
part, without its files of rows and transactions, and positions, times, marks and schemas are those of the parts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.block import Block, JoinedBlock, Transactions
from holdfast.archive.history.coverage import chains, to_of
from holdfast.archive.history.restore_points import source_names
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.common.units import parse_size, parse_span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord, TableRecord
    from holdfast.archive.format.state import State
    from holdfast.config.archives_model import CompactionConfig

_FORMAT: Final = 2  # an older reader would not see the parts
_MOST_TRANSACTIONS: Final = 2_000_000  # in a block: looking up a time reads all of them
_MOST_PARTS: Final = 1_000  # in a block: a commit holds what each part tells


@dataclass(frozen=True)
class CompactionPolicy:
    """Rules for the neighbouring blocks of changes to join."""

    min_blocks: int = 8  # so many at least
    small_bytes: int = 64 << 20  # only blocks that are smaller
    target_bytes: int = 512 << 20  # what is joined is no larger than this
    min_age: timedelta = timedelta(hours=1)  # only blocks whose last change is older

    def __post_init__(self) -> None:
        if self.min_blocks < 2:
            raise UsageError(f"compaction joins two blocks or more, not {self.min_blocks}: raise min_blocks")
        if not 0 < self.small_bytes <= self.target_bytes:
            raise UsageError(
                f"compaction cannot join blocks of up to {self.small_bytes} bytes into one of {self.target_bytes}: "
                "the size of small blocks must be above zero, and not above the target"
            )
        if self.min_age < timedelta(0):
            raise UsageError("compaction cannot wait for less than no time: min_age must not be negative")

    def arguments(self) -> list[str]:
        return [
            *("--min-blocks", str(self.min_blocks)),
            *("--small-bytes", str(self.small_bytes)),
            *("--target-bytes", str(self.target_bytes)),
            *("--min-age", str(self.min_age.total_seconds())),
        ]

    @classmethod
    def configured(cls, section: CompactionConfig) -> CompactionPolicy:
        return cls(
            min_blocks=section.min_blocks,
            small_bytes=parse_size(section.small),
            target_bytes=parse_size(section.target),
            min_age=parse_span(section.min_age),
        )


@dataclass(frozen=True)
class Group:
    """Blocks of changes of one source that are to become one, in the order of the log."""

    source: str
    blocks: tuple[Placed, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(placed.id for placed in self.blocks)

    @property
    def size(self) -> int:
        return sum(placed.size for placed in self.blocks)

    @property
    def rows(self) -> int:
        return sum(placed.rows for placed in self.blocks)


def check_format(archive: Archive) -> None:
    """Raise RefusedError for an archive of a format that cannot hold joined blocks."""
    if archive.state.format < _FORMAT:
        raise RefusedError(
            f"an archive of format {archive.state.format} cannot hold what compaction makes: "
            f"migrate first: holdfast migrate {archive.store.url} --to {_FORMAT}"
        )


def plan_compaction(
    state: State, policy: CompactionPolicy, now: datetime, *, source: str | None = None
) -> tuple[Group, ...]:
    """Return the groups that are worth joining, of all sources or one, the oldest of each first."""
    names = source_names(state) if source is None else (source,)
    return tuple(
        Group(name, tuple(blocks))
        for name in names
        for run in _runs(state, name)
        for blocks in _worth_it(run, policy, now - policy.min_age)
    )


def _runs(state: State, source: str) -> Iterator[list[Placed]]:
    """Yield the runs of adjacent blocks of changes.

    They follow each other in one stream without a hole, and without a full snapshot in between. There a truncation may
    cut: what comes after the snapshot has to stay where what was before it goes.
    """
    for chain in chains(state, source):
        full = sorted(to_of(placed.head) for placed in chain.full)
        run: list[Placed] = []
        for identity, _ in groupby(chain.changes, key=lambda placed: placed.home or placed.id):
            placed = state.blocks[identity]
            if run and (_parted(full, run[-1].head, placed.head) or not _same_stream(run[-1].head, placed.head)):
                yield run
                run = []
            run.append(placed)
        yield run


def _parted(full: Sequence[int], before: Block, after: Block) -> bool:
    return bisect_left(full, to_of(before)) < bisect_left(full, to_of(after))


def _same_stream(before: Block, after: Block) -> bool:
    return before.stream is not None and after.stream is not None and before.stream.slot == after.stream.slot


@dataclass
class _Heap:
    """Neighbours that may be joined, up to the limits of one block."""

    blocks: list[Placed]
    sizes: list[int]
    transactions: int = 0
    parts: int = 0

    def has_room(self, placed: Placed, size: int, target: int) -> bool:
        transactions, parts = _counts(placed.head)
        return (
            sum(self.sizes) + size <= target
            and self.transactions + transactions <= _MOST_TRANSACTIONS
            and self.parts + parts <= _MOST_PARTS
        )

    def add(self, placed: Placed, size: int) -> None:
        transactions, parts = _counts(placed.head)
        self.blocks.append(placed)
        self.sizes.append(size)
        self.transactions += transactions
        self.parts += parts

    def trimmed(self) -> list[Placed]:
        """Return the blocks without those at the ends that are larger than all others together.

        What was joined before is not written again for a few small blocks behind it: it has to double at least.
        """
        first, end, total = 0, len(self.blocks), sum(self.sizes)
        while end - first > 1 and 2 * self.sizes[first] > total:
            total -= self.sizes[first]
            first += 1
        while end - first > 1 and 2 * self.sizes[end - 1] > total:
            total -= self.sizes[end - 1]
            end -= 1
        return self.blocks[first:end]


def _counts(block: Block) -> tuple[int, int]:
    return block.transactions.count if block.transactions else 0, max(1, len(block.parts))


def _worth_it(run: Sequence[Placed], policy: CompactionPolicy, before: datetime) -> Iterator[list[Placed]]:
    heaps = [_Heap([], [])]
    for placed in run:
        size = placed.size
        if size >= policy.small_bytes or placed.head.covers.to_time > before:
            heaps.append(_Heap([], []))
            continue
        if not heaps[-1].has_room(placed, size, policy.target_bytes):
            heaps.append(_Heap([], []))
        heaps[-1].add(placed, size)
    for heap in heaps:
        blocks = heap.trimmed()
        if len(blocks) >= policy.min_blocks:
            yield blocks


@dataclass(frozen=True)
class FormRun:
    """Consecutive changes of a table in one form, which come into the same files."""

    number: int  # among those of its group
    records: tuple[TableRecord, ...]  # one of each block, in their order

    @property
    def table(self) -> str:
        return self.records[-1].id

    @property
    def key(self) -> tuple[int, ...]:
        return self.records[-1].key

    @property
    def files(self) -> tuple[FileRecord, ...]:
        return tuple(file for record in self.records for file in record.files)

    @property
    def rows(self) -> int:
        return sum(record.rows for record in self.records)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def record(self, files: Iterable[FileRecord]) -> TableRecord:
        """Return the record of the changes in new files; DamagedError: there are more or fewer rows."""
        written = tuple(files)
        rows = sum(file.rows for file in written)
        if rows != self.rows:
            raise DamagedError(
                f"{rows} changes of {self.records[-1].label} were written where {self.rows} are: nothing was joined. "
                "Please report this"
            )
        first, last = self.records[0], self.records[-1]
        return last.model_copy(update={"files": written, "rows": rows, "first": first.first})


def form_runs(group: Group) -> tuple[FormRun, ...]:
    """Return the changes of a group by table and form, those of a table in order."""
    tables: dict[str, list[TableRecord]] = {}
    for placed in group.blocks:
        for record in placed.block.tables:
            tables.setdefault(record.id, []).append(record)
    runs = (
        tuple(same_form)
        for records in tables.values()
        for _, same_form in groupby(records, key=lambda record: (record.columns, record.key))
    )
    return tuple(FormRun(number, records) for number, records in enumerate(runs))


def join_transactions(group: Group, file: FileRecord | None) -> Transactions | None:
    """Return the transactions of a joined block, in one file; DamagedError: there are more or fewer."""
    lists = [placed.head.transactions for placed in group.blocks if placed.head.transactions]
    count = sum(each.count for each in lists)
    if count != (file.rows if file else 0):
        raise DamagedError(
            f"{file.rows if file else 0} transactions of {group.source} were written where {count} are: nothing was "
            "joined. Please report this"
        )
    if file is None:
        return None
    return Transactions(
        file=file,
        count=count,
        first_time=min(each.first_time for each in lists),
        last_time=max(each.last_time for each in lists),
    )


def join(
    group: Group, *, identity: str, run: str, tables: tuple[TableRecord, ...], transactions: Transactions | None
) -> Block:
    """Return the block that stands for all of a group, with the tables and transactions of all."""
    first, last = group.blocks[0].head, group.blocks[-1].head
    covers = last.covers.model_copy(
        update={"from_position": first.covers.from_position, "from_time": first.covers.from_time}
    )
    return last.model_copy(
        update={
            "id": identity,
            "run": run,
            "covers": covers,
            "tables": tables,
            "packs": (),
            "transactions": transactions,
            "marks": (),
            "ddl": (),
            "passed": (),
            "gap": first.gap,
            "parts": tuple(part for placed in group.blocks for part in _parts(placed)),
        }
    )


def _parts(placed: Placed) -> tuple[JoinedBlock, ...]:
    if placed.head.parts:
        return placed.head.parts
    bare = placed.head.model_copy(update={"tables": (), "packs": (), "transactions": None})
    return (JoinedBlock(commit=placed.number, block=bare),)


def check_neighbours(state: State, group: Group) -> None:
    """Raise RefusedError where blocks of a group were removed, or others came between them."""
    wanted = group.ids
    for run in _runs(state, group.source):
        ids = [placed.id for placed in run]
        if wanted[0] in ids:
            first = ids.index(wanted[0])
            if tuple(ids[first : first + len(wanted)]) == wanted:
                return
    raise RefusedError(
        f"blocks of {group.source} that were to be joined were removed, or a full backup came between them: "
        "nothing was joined. Start the compaction again"
    )
