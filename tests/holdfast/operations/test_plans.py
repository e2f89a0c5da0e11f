"""Plans of maintenance: what it would do now, and nothing of it done."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.common.errors import RefusedError, UsageError
from holdfast.operations.plans import planned_compaction, planned_truncation
from holdfast.operations.requests.compaction import CompactionRequest
from holdfast.operations.requests.truncation import TruncationRequest
from tests.support.archives.evolving import ID, PRICE, SOURCE, WORD, Evolving, catalog, changed, column, table
from tests.support.archives.written_blocks import KB, Writer
from tests.support.stores.memory_store import MemoryStore

ONE = table(1)
GENERATED = table(3, ID, WORD, column(PRICE, generated="s"))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def writer(store: MemoryStore, noon: datetime) -> Writer:
    """A source with a snapshot and four small blocks of changes, a minute apart."""
    writer = Writer(Archive.create(store, name="shop"), make_block, noon)
    writer.full()
    for _ in range(4):
        writer.changes(KB, rows=3)
    store.now = noon + timedelta(days=9)
    return writer


@pytest.fixture
def noon() -> datetime:
    return datetime.fromisoformat("2026-03-01T12:00:00Z")


def test_groups_that_would_be_joined_are_told_and_stay_as_they_are(store: MemoryStore, writer: Writer) -> None:
    before = store.keys()
    store.requests.clear()
    request = CompactionRequest.given(min_blocks=2, min_age="10 min")
    assert planned_compaction(writer.archive, request) == {
        "dry_run": True,
        "joined": [
            {
                "source": "shop_db",
                "blocks": 4,
                "bytes_before": 4 * KB,
                "changes": 12,
                "from": "2026-03-01T12:00:00.000000Z",
                "to": "2026-03-01T12:04:00.000000Z",
            }
        ],
        "consolidated": [],
        "not_consolidated": {},
    }
    assert store.requests == ["list archive.json"]
    assert store.keys() == before


@pytest.mark.parametrize("given", [{"min_blocks": 9}, {"min_age": "30d"}, {"source": "crm"}, {"small": "1 B"}])
def test_what_is_not_worth_it_is_not_in_the_plan(writer: Writer, given: dict[str, object]) -> None:
    assert planned_compaction(writer.archive, CompactionRequest.given(**{"min_blocks": 2, **given}))["joined"] == []


@pytest.mark.parametrize("given", [{}, {"source": SOURCE}])
def test_snapshots_that_would_be_made_are_told(given: dict[str, str]) -> None:
    made = Evolving()
    made.full(0x100, catalog(ONE))
    made.changes(0x200, catalog(ONE), changed(ONE, 0x150))
    found = planned_compaction(made.archive, CompactionRequest.given(consolidate=True, **given))
    assert found["consolidated"] == [
        {"source": SOURCE, "restorable_to": "2026-03-01T12:02:00.000000Z", "position": "0/200"}
    ]
    assert planned_compaction(made.archive, CompactionRequest.given(**given))["consolidated"] == []


def test_why_none_would_be_made_is_told_or_refused_where_the_source_was_named() -> None:
    made = Evolving()
    made.full(0x100, catalog(GENERATED))
    made.changes(0x200, catalog(GENERATED), changed(GENERATED, 0x150))
    found = planned_compaction(made.archive, CompactionRequest.given(consolidate=True))
    assert found["consolidated"] == []
    assert list(found["not_consolidated"]) == [SOURCE]
    assert found["not_consolidated"][SOURCE].startswith("shop_db cannot be consolidated: shop.t3: it has generated")
    with pytest.raises(RefusedError, match=r"shop_db cannot be consolidated: shop\.t3"):
        planned_compaction(made.archive, CompactionRequest.given(consolidate=True, source=SOURCE))


@pytest.fixture
def points(store: MemoryStore, noon: datetime) -> Archive:
    """An archive with three full backups, an hour apart."""
    writer = Writer(Archive.create(store, name="shop"), make_block, noon)
    for _ in range(3):
        writer.minute += 60
        writer.at += 16
        writer.full(stream=None)
    store.now = noon + timedelta(days=9)
    return writer.archive


def test_what_a_truncation_would_remove_is_told_and_stays(store: MemoryStore, points: Archive) -> None:
    before = store.keys()
    store.requests.clear()
    plan = planned_truncation(points, TruncationRequest.given(keep=["last=1"]))
    assert plan.removed == ("full-1", "full-2")
    assert store.requests == ["list archive.json"]
    assert store.keys() == before


@pytest.mark.parametrize(
    ("given", "removed"),
    [
        ({"min_chains": 3}, ()),
        ({"min_chains": 2}, ("full-1",)),
        ({"keep": ["within=1y"]}, ()),
        ({"keep": ["last=2"]}, ("full-1",)),
    ],
)
def test_what_the_rules_or_the_newest_backups_keep_is_not_in_it(
    points: Archive, given: dict[str, object], removed: tuple[str, ...]
) -> None:
    request = TruncationRequest.given(**{"keep": ["last=1"], **given})
    assert planned_truncation(points, request).removed == removed


def test_no_rules_and_a_source_that_is_not_there_are_refused(points: Archive) -> None:
    with pytest.raises(RefusedError):
        planned_truncation(points, TruncationRequest())
    with pytest.raises(UsageError, match="crm"):
        planned_truncation(points, TruncationRequest.given(keep=["last=1"], source="crm"))
