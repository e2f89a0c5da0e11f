"""Vacuums among backups, removals and what killed jobs leave, in any order, against a model of what is needed."""

from __future__ import annotations

from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block
from holdfast.common.errors import RefusedError
from tests.support.archives.vacuuming import DAY, commit, put_file, run_vacuum, write_block
from tests.support.generator.trials import tiered
from tests.support.stores.memory_store import MemoryStore

pytestmark = pytest.mark.slow

SOURCES = st.sampled_from(["shop", "crm"])


def paths(block: Block) -> set[str]:
    return {file.path for file in block.files()}


class Vacuuming(RuleBasedStateMachine):
    """What blocks are there, which ones were removed and when, and which were begun only."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        Archive.create(self.store, name="shop")
        self.blocks: dict[str, Block] = {}
        self.removed: dict[str, Block] = {}
        self.begun: dict[str, Block] = {}

    def some(self, data: st.DataObject, blocks: dict[str, Block]) -> Block:
        return blocks[data.draw(st.sampled_from(sorted(blocks)))]

    @rule(source=SOURCES, tables=st.integers(0, 2))
    def back_up(self, source: str, tables: int) -> None:
        block = write_block(self.store, source=source, tables=tables)
        commit(self.store, add=(block,))
        self.blocks[block.id] = block

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), is_made=st.booleans())
    def build_on_another(self, data: st.DataObject, is_made: bool) -> None:
        old = self.some(data, self.blocks)
        shared = old.tables[0].files if is_made and old.tables else ()
        placed = Archive.open(self.store).state.blocks[old.id]
        block = write_block(
            self.store,
            source=old.source.name,
            catalog=old.catalog,
            shared=shared,
            after=placed.commit if shared else None,
        )
        commit(self.store, add=(block,))
        self.blocks[block.id] = block

    @precondition(lambda self: self.blocks)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        block = self.some(data, self.blocks)
        commit(self.store, "truncation", remove=(block.id,))
        self.removed[block.id] = self.blocks.pop(block.id)

    @rule(source=SOURCES)
    def begin_and_die(self, source: str) -> None:
        block = write_block(self.store, source=source)
        self.begun[block.id] = block

    @precondition(lambda self: self.blocks)
    @rule(data=st.data())
    def lose_an_attempt(self, data: st.DataObject) -> None:
        block = self.some(data, self.blocks | self.removed)
        put_file(self.store, block.id, source=block.source.name)

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def wake_up(self, data: st.DataObject) -> None:
        """A backup that was taken for dead commits after all, whole or not at all."""
        block = self.some(data, self.begun)
        put_file(self.store, block.id, source=block.source.name)
        del self.begun[block.id]
        abandoned = block.id in Archive.open(self.store).state.abandoned
        try:
            commit(self.store, add=(block,))
        except RefusedError:
            assert abandoned
        else:
            assert not abandoned
            self.blocks[block.id] = block

    @rule(hours=st.sampled_from([1, 12, 25]))
    def wait(self, hours: int) -> None:
        self.store.advance(timedelta(hours=hours))

    @rule(orphans=st.booleans())
    def vacuum(self, orphans: bool) -> None:
        run_vacuum(self.store, orphans=orphans)

    @rule()
    def write_checkpoint(self) -> None:
        archive = Archive.open(self.store)
        archive._since_checkpoint = 1000
        archive.add(lambda state: Change(kind="noted"), check=lambda: None, fence=None)

    @invariant()
    def everything_needed_is_there(self) -> None:
        assert set().union(*map(paths, self.blocks.values())) <= self.store.keys()

    def teardown(self) -> None:
        """Once every grace is over, nothing but what is needed is there."""
        for _ in range(2):
            self.store.advance(2 * DAY)
            run_vacuum(self.store)
        assert self.store.keys("data/") == set().union(*map(paths, self.blocks.values()))
        assert Archive.open(self.store).state.removed == {}


TestVacuuming = pytest.mark.exhaustive(Vacuuming.TestCase)
TestVacuuming.settings = settings(derandomize=True, max_examples=50, stateful_step_count=25, deadline=None)


@seed(4)
class FewVacuums(Vacuuming):
    """So few, and yet all kinds of commits, and backups that come too late: the seed was chosen for that."""


TestFewVacuums = FewVacuums.TestCase
TestFewVacuums.settings = settings(max_examples=tiered(8, 15), stateful_step_count=25, deadline=None, database=None)
