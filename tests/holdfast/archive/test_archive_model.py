"""Everything that is ever done to an archive, in any order and ended at any request, against rows in dictionaries.

Whatever an archive says can be restored is what was there at that moment; nothing but a truncation makes that less, and
never less than the rules, the holds and the newest backup ask for; a vacuum leaves what is named and nothing else.
"""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from holdfast.archive import Archive, Change, State
from holdfast.archive import archive as archives
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import new_attempt, write_bytes
from holdfast.archive.format.block import Block, Coverage, SourceRecord, Stream
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import Hold
from holdfast.archive.history import target_resolution
from holdfast.archive.history.coverage import blocks_of, covered_ranges
from holdfast.archive.maintenance.consolidation import newest_cut, synthetic_block, target_of
from holdfast.archive.maintenance.migration import migrate
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.verify import verify
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.archive.scan.table_history import TableHistory
from holdfast.common.errors import OutcomeUnknownError, RefusedError
from holdfast.common.lsn import parse_position, show_position
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreDenied
from tests.support.archives.compacting import compact
from tests.support.archives.histories import FORMS, MISSING, change_batch, change_schema, record_batch
from tests.support.archives.table_models import KEY, KINDS, Model, act, by_number, filled
from tests.support.archives.vacuuming import run_vacuum
from tests.support.jobs.steps import SteppedStore
from tests.support.stores.failing_requests import Failing

pytestmark = pytest.mark.slow

SOURCES = ("crm", "shop")
MEMORY = 64 << 20
RULES = ("last=1", "last=2", "last=4", "daily=2", "within=4000d")

_KILLS = st.tuples(st.sampled_from([0, 0, 0, *range(1, 14)]), st.sampled_from(["before", "after"]))
"""At which request that changes something a process is ended (0: at none), and whether that has taken effect."""


def time_of(position: int) -> datetime:
    """A transaction an hour."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=position / 10)


class Database:
    """A source: its table, and how it is backed up."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self.store = store
        self.name = name
        self.model = Model({})
        self.model.seen.append((self.model.lsn, 0, []))

    def truth(self) -> dict[int, Counter[Any]]:
        return {position: Counter(filled(row, form) for row in rows) for position, form, rows in self.model.seen}

    def form_at(self, position: int) -> int:
        return next(form for at, form, _ in self.model.seen if at == position)

    def full(self, state: State, draw: st.DataObject) -> Block:
        at = self.model.lsn
        stream = self._stream(state.streams.get(self.name, show_position(at)), opened=self.name not in state.streams)
        block = self._block(state, draw, "snapshot", None, at)
        return block.model_copy(update={"stream": stream, "tables": (self.base(block.id, *self._rows_at(at)),)})

    def base(self, block: str, form: int, rows: list[dict[int, Any]]) -> TableRecord:
        stem = f"data/{self.name}/1/snapshot/{block}/00000"
        files = tuple(write_parquet(self.store, stem, FORMS[form], [record_batch(FORMS[form], rows)]))
        return TableRecord(id="1", table_schema="public", name="t", rows=len(rows), digest="", files=files)

    def changes(self, state: State, draw: st.DataObject) -> Block:
        """The next changes: up to now, or to where a full backup was made."""
        since = parse_position(state.streams[self.name])
        cuts = [parse_position(placed.head.covers.to_position) for placed in blocks_of(state, self.name)]
        upto = min((cut for cut in cuts if cut > since), default=self.model.lsn)
        block = self._block(state, draw, "changes", since, upto)
        return block.model_copy(
            update={
                "stream": self._stream(show_position(since)),
                "tables": tuple(self._records(block.id, since, upto)),
            }
        )

    def _records(self, block: str, since: int, upto: int) -> Iterator[TableRecord]:
        mine = [change for change in self.model.changes if since <= change.lsn < upto]
        for form in sorted({change.form for change in mine}):
            some = [change for change in mine if change.form == form]
            stem = f"data/{self.name}/1/changes/{block}/{form:05d}"
            yield TableRecord(
                id="1",
                table_schema="public",
                name="t",
                rows=len(some),
                digest="",
                files=tuple(write_parquet(self.store, stem, change_schema(FORMS[form]), [change_batch(some)])),
                columns=({"form": form},),
                key=KEY,
                first=show_position(some[0].lsn),
                last=show_position(some[-1].lsn),
            )

    def _rows_at(self, position: int) -> tuple[int, list[dict[int, Any]]]:
        return next((form, rows) for at, form, rows in self.model.seen if at == position)

    def _stream(self, position: str, *, opened: bool = False) -> Stream:
        return Stream(slot="s", position=position, opened=opened, publication="s", publication_oid=1, followed={1: 10})

    def _block(self, state: State, draw: st.DataObject, kind: str, since: int | None, upto: int) -> Block:
        block = uuid.uuid4().hex
        return Block(
            id=block,
            kind=kind,
            run=f"run-{block}",
            source=SourceRecord(name=self.name, kind="postgresql", database=self.name, version="180006"),
            covers=Coverage(
                from_position=None if since is None else show_position(since),
                to_position=show_position(upto),
                from_time=time_of(upto if since is None else since),
                to_time=time_of(upto),
            ),
            tables=(),
            catalog=self._catalog(state, draw, block),
            schema_dump=None,
            schema_version="1",
        )

    def _catalog(self, state: State, draw: st.DataObject, block: str) -> FileRecord:
        """A file of its own, or that of the block before, where nothing has changed."""
        mine = blocks_of(state, self.name)
        if draw.draw(st.booleans()) and mine:
            return mine[-1].head.catalog
        return write_bytes(
            self.store, f"data/{self.name}/schema/snapshot/{block}/catalog-{new_attempt()}.json", block.encode()
        )


class Story(RuleBasedStateMachine):
    """Two databases and one archive."""

    def __init__(self) -> None:
        super().__init__()
        self._place = tempfile.TemporaryDirectory(prefix="holdfast-model-")
        self.spill = Path(self._place.name) / "spill"
        self.spill.mkdir()
        self._every, archives.CHECKPOINT_EVERY = archives.CHECKPOINT_EVERY, 3
        self.store = open_store(f"{self._place.name}/archive")
        Archive.create(self.store, name="shop", number=1)
        self.databases = {name: Database(self.store, name) for name in SOURCES}
        self.kept: dict[str, set[int]] = {name: set() for name in SOURCES}

    def teardown(self) -> None:
        """Look at every moment that can be restored, and at every file."""
        try:
            archive = Archive.open(self.store)
            for name in SOURCES:
                for position in self.restorable(archive.state, name):
                    self.check_rows(archive.state, name, position)
            assert verify(archive).damage == ()
            assert archive.state == State.begun(1).after(archive.commits())
        finally:
            archives.CHECKPOINT_EVERY = self._every
            self._place.cleanup()

    # What happens to the databases

    @rule(name=st.sampled_from(SOURCES), draw=st.data())
    def change_rows(self, name: str, draw: st.DataObject) -> None:
        model = self.databases[name].model
        for _ in range(draw.draw(st.integers(1, 3))):
            for _ in range(draw.draw(st.integers(1, 4))):
                act(cast("st.DrawFn", draw.draw), model, KINDS)
            model.commit()

    # What happens to the archive

    @rule(name=st.sampled_from(SOURCES), draw=st.data(), kill=_KILLS)
    def back_up_all(self, name: str, draw: st.DataObject, kill: tuple[int, Any]) -> None:
        with self.ended(kill) as store:
            self.commit(store, lambda state: Change("backup", add=(self.databases[name].full(state, draw),)))
        self.nothing_is_lost()

    @precondition(lambda self: self.state().streams)
    @rule(draw=st.data(), kill=_KILLS)
    def back_up_changes(self, draw: st.DataObject, kill: tuple[int, Any]) -> None:
        name = draw.draw(st.sampled_from(sorted(self.state().streams)))
        with self.ended(kill) as store:
            self.commit(store, lambda state: Change("backup", add=(self.databases[name].changes(state, draw),)))
        self.nothing_is_lost()

    @rule(kill=_KILLS)
    def compact(self, kill: tuple[int, Any]) -> None:
        before = self.state()
        with self.ended(kill) as store:
            if before.format == 1:
                with suppress(RefusedError):
                    compact(store)
                assert self.state().blocks == before.blocks
            else:
                compact(store)
        self.nothing_changed()

    @precondition(lambda self: self.state().format == 2 and self.state().streams)
    @rule(draw=st.data())
    def consolidate(self, draw: st.DataObject) -> None:
        state = self.state()
        name = draw.draw(st.sampled_from(sorted(state.streams)))
        cut = newest_cut(state, name)
        if cut is None:
            return
        moment = target_of(state, self.store, cut)
        form = self.databases[name].form_at(moment.position)
        rows = [row for batch in self.rows(state, name, moment.position) for row in by_number(batch)]
        identity = uuid.uuid4().hex
        table = self.databases[name].base(identity, form, rows)
        block = synthetic_block(cut, identity=identity, run="run", tables=(table,), packs=(), left_out=())
        self.commit(self.store, lambda state: Change("consolidation", add=(block,)))
        self.nothing_changed()

    @rule(words=st.sampled_from(RULES), kill=_KILLS)
    def truncate(self, words: str, kill: tuple[int, Any]) -> None:
        before = self.state()
        with self.ended(kill) as store:
            truncate(Archive.open(store), parse_rules([words]), check=lambda: None, fence=None)
        after = self.state()
        for name in SOURCES:
            now = self.restorable(after, name)
            assert self.must_stay(before, name, words) <= now <= self.kept[name]
            self.kept[name] = now

    @rule(kill=_KILLS, orphans=st.booleans())
    def vacuum(self, kill: tuple[int, Any], orphans: bool) -> None:
        ended = True
        with self.ended(kill) as store:
            done = run_vacuum(store, grace=timedelta(0), orphans=orphans)
            ended = bool(done.refused)  # a deletion that is denied ends no vacuum: the next one tries it again
        if orphans and not ended:
            named = {file.path for placed in self.state().blocks.values() for file in placed.block.files()}
            assert {found.key for found in self.store.list("data/").objects} == named
            assert not self.state().removed
        self.nothing_changed()

    @rule(kill=_KILLS)
    def migrate(self, kill: tuple[int, Any]) -> None:
        with self.ended(kill) as store:
            migrate(Archive.open(store), 2, check=lambda: None, fence=None)
        self.nothing_changed()

    @precondition(lambda self: any(self.kept.values()))
    @rule(draw=st.data())
    def hold(self, draw: st.DataObject) -> None:
        name = draw.draw(st.sampled_from(sorted(name for name in SOURCES if self.kept[name])))
        position = draw.draw(st.sampled_from(sorted(self.kept[name])))
        hold = Hold(
            id=uuid.uuid4().hex,
            source=name,
            position=show_position(position),
            at=time_of(position),
            owner="jane",
            reason="trial",
            created=time_of(0),
        )
        self.commit(self.store, lambda state: Change("hold", holds=(hold,)))
        self.nothing_changed()

    @precondition(lambda self: self.state().holds)
    @rule(draw=st.data())
    def release(self, draw: st.DataObject) -> None:
        hold = draw.draw(st.sampled_from(sorted(self.state().holds)))
        self.commit(self.store, lambda state: Change("hold", released=(hold,)))
        self.nothing_changed()

    @precondition(lambda self: any(self.kept.values()))
    @rule(draw=st.data())
    def restore(self, draw: st.DataObject) -> None:
        state = self.state()
        for name in SOURCES:
            if self.kept[name]:
                self.check_rows(state, name, draw.draw(st.sampled_from(sorted(self.kept[name]))))

    # What must hold

    def nothing_is_lost(self) -> None:
        state = self.state()
        for name in SOURCES:
            now = self.restorable(state, name)
            assert self.kept[name] <= now
            self.kept[name] = now

    def nothing_changed(self) -> None:
        state = self.state()
        assert {name: self.restorable(state, name) for name in SOURCES} == self.kept

    def must_stay(self, state: State, name: str, words: str) -> set[int]:
        rule, _, count = words.partition("=")
        ends = [parse_position(placed.head.covers.to_position) for placed in blocks_of(state, name)]
        mine = sorted(position for position in ends if position in self.kept[name])
        held = {parse_position(hold.position) for hold in state.holds.values() if hold.source == name}
        if rule == "within":
            return self.kept[name]
        if rule == "last":
            return {*mine[-int(count) :], *held}
        days = {time_of(position).date(): position for position in mine}
        return {*[days[day] for day in sorted(days)[-int(count) :]], *held}

    def restorable(self, state: State, name: str) -> set[int]:
        found = covered_ranges(state, name)
        return {
            position
            for position, _, _ in self.databases[name].model.seen
            if any(each.first <= position <= each.last for each in found)
        }

    def check_rows(self, state: State, name: str, position: int) -> None:
        form = self.databases[name].form_at(position)
        found = Counter(filled(row, form) for batch in self.rows(state, name, position) for row in by_number(batch))
        assert found == self.databases[name].truth()[position], (name, position)

    def rows(self, state: State, name: str, position: int) -> Iterator[Any]:
        parts = target_resolution.resolve(state, self.store, name, f"lsn:{show_position(position)}").tables()["1"]
        assert parts.stale == ""
        history = TableHistory(
            table="1",
            label="public.t",
            base=parts.base.files,
            since=parts.since,
            changes=parts.changes,
            key=KEY if parts.changes else (),
            upto=position,
            wanted=FORMS[self.databases[name].form_at(position)],
            missing=MISSING,
        )
        return as_of(self.store, history, memory_bytes=MEMORY, spill=self.spill)

    # How it is done

    def state(self) -> State:
        return Archive.open(self.store).state

    def commit(self, store: ObjectStore, plan: Callable[[State], Change]) -> None:
        Archive.open(store).add(plan, check=lambda: None, fence=None)

    @contextmanager
    def ended(self, kill: tuple[int, Any]) -> Iterator[ObjectStore]:
        """A store for one process, which is ended at a request; what it had locked is free once its leases are over."""
        at, when = kill
        store = SteppedStore(self.store, Failing(at, when, StoreDenied("ended here"), times=1000 if at else 0))
        with suppress(StoreDenied, OutcomeUnknownError):
            yield store
        for left in self.store.list("locks/").objects:
            self.store.delete(left.key)


_SETTINGS = settings(stateful_step_count=40, deadline=None, print_blob=True)


@seed(4)
class _FewStories(Story):
    """So few, and yet commits of every kind in both formats: the seed was chosen for that."""


class _MoreStories(Story):
    """Others, and more of them."""


TestStory = _FewStories.TestCase
TestStory.settings = settings(_SETTINGS, max_examples=6, database=None)
TestMoreStories = pytest.mark.exhaustive(_MoreStories.TestCase)
TestMoreStories.settings = settings(_SETTINGS, max_examples=60, derandomize=True)
