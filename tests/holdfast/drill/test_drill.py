"""What a drill does with a restore, and what it leaves in the archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.history.coverage import Chain, CoveredRange
from holdfast.common.errors import DamagedError, RefusedError, ReportedError, UsageError
from holdfast.config.archives_model import DrillConfig
from holdfast.drill import Drill, drills_of, new_run
from holdfast.drill.drill import choose_moment
from holdfast.drill.history import drill_standing
from holdfast.operations.requests.drill import DrillRequest
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store

NOWHERE = Address("postgresql://me@127.0.0.1:1/nowhere")


def _adding(block: Block, state: State) -> Change:
    return Change(kind="backup", add=(block,))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An archive of two full backups of `shop_db` and one of `other`."""
    archive = Archive.create(open_store(str(tmp_path / "archive")), name="shop")
    for number, source in enumerate(("shop_db", "shop_db", "other"), 1):
        at = datetime(2026, 3, number, 12, tzinfo=UTC)
        block = make_block(source=source, position=f"0/{number}00", at=at)
        archive.add(partial(_adding, block), check=lambda: None, fence=None)
    return archive.store


class Restored:
    """Plays a restore: notes what it was asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.arguments: Sequence[str] = ()
        self._error = error

    def __call__(self, address: Address, request: RestoreRequest) -> Mapping[str, Any]:
        assert address == NOWHERE
        self.arguments = request.to_arguments()
        if self._error:
            raise self._error
        counts = {"rows": 7, "tables": 2, "bytes": 70, "commit": 1}
        return {**counts, "not_restored": [1, 2], "stale": [], "equal": True, "resumed": None}


def drilled(
    store: ObjectStore,
    restored: Restored,
    *,
    records: ObjectStore | None = None,
    say: Callable[[str], None] = lambda words: None,
    **asked: Any,
) -> dict[str, Any]:
    work = Drill(store, DrillRequest(source="shop_db", **asked), to=NOWHERE, records=records, say=say)
    work.prepare()
    return work.run(new_run("shop_db"), restored)


def test_a_random_moment_is_restored_and_what_was_found_is_told_and_kept(store: ObjectStore) -> None:
    restored = Restored()
    said: list[str] = []
    result = drilled(store, restored, seed=1, say=said.append)
    at = restored.arguments[restored.arguments.index("--at") + 1]
    number = int(at.removeprefix("commit:"))
    assert restored.arguments == ["--source", "shop_db", "--at", at]
    assert said == [f"to restore: shop_db as of {result['at']}, commit:{number}, lsn:0/{number}00, chosen by --seed 1"]
    age = store.list("archive.json").now - datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert abs(result.pop("age_s") - age.total_seconds()) < 60
    assert 0 <= result.pop("restore_s") <= result.pop("seconds")
    assert result == {
        "source": "shop_db", "at": f"2026-03-0{number}T12:00:00.000000Z", "position": f"0/{number}00", "commit": 1,
        "seed": 1, "newest": "2026-03-02T12:00:00.000000Z", "rows": 7, "tables": 2, "bytes": 70, "stale": [],
        "not_restored": 2, "equal": True, "assertions": [],
    }  # fmt: skip
    (kept,) = drills_of(store)
    assert (kept["state"], kept["error"], kept["equal"], kept["at"]) == ("succeeded", "", True, result["at"])


def test_another_moment_is_chosen_each_time_unless_it_is_said(store: ObjectStore) -> None:
    seeds = {drilled(store, Restored())["seed"] for _ in range(3)}
    assert len(seeds) == 3
    assert drilled(store, Restored(), at="commit:2")["seed"] is None
    with pytest.raises(RefusedError, match="no restore point of shop_db"):
        drilled(store, Restored(), at="commit:3")
    with pytest.raises(UsageError, match="say which source"):
        Drill(store, DrillRequest()).prepare()


def test_a_restore_that_fails_is_a_drill_that_fails_and_keeps_what_it_knew(store: ObjectStore) -> None:
    with pytest.raises(ReportedError, match="not equal"):
        drilled(store, Restored(ReportedError("public.orders is not equal to the archive", 4)), at="commit:1")
    (kept,) = drills_of(store)
    assert (kept["state"], kept["error"]) == ("failed", "public.orders is not equal to the archive")
    assert (kept["equal"], kept["at"], "assertions" in kept) == (False, "2026-03-01T12:00:00.000000Z", False)


def test_damage_that_is_met_before_the_restore_is_a_drill_that_fails(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*args: object) -> None:
        raise DamagedError("the list of transactions is damaged")

    drilled(store, Restored())
    monkeypatch.setattr("holdfast.drill.drill.resolve", resolve)
    for records in (open_store(str(tmp_path / "elsewhere")), None):
        assert drill_standing(store, "shop_db").failure == ""
        with pytest.raises(DamagedError):
            drilled(store, Restored(), records=records)
    assert drill_standing(store, "shop_db").failure == "the list of transactions is damaged"


@pytest.mark.service
def test_assertions_that_do_not_hold_fail_the_drill(store: ObjectStore, address: Address) -> None:
    request = DrillRequest(source="shop_db", at="commit:1", assertions=("select 1 = 2",))
    work = Drill(store, request, DrillConfig(assertions=["select true"]), to=address)
    work.prepare()
    with pytest.raises(DamagedError, match=r"1 of 2 assertions .* in shop_db .*: select 1 = 2: returned false"):
        work.run(new_run("shop_db"), lambda address, arguments: {"rows": 0, "equal": True})
    (kept,) = drills_of(store)
    assert (kept["state"], kept["equal"]) == ("failed", True)
    assert [each["holds"] for each in kept["assertions"]] == [True, False]


def test_a_newest_moment_that_is_too_old_fails_a_drill_that_is_good_otherwise(store: ObjectStore) -> None:
    with pytest.raises(
        DamagedError, match=r"of shop_db, 2026-03-02T12:00:00.000000Z, is .* the limit is 1 day, 0:00:00"
    ):
        drilled(store, Restored(), newest_within="1d")
    (kept,) = drills_of(store)
    assert (kept["state"], kept["equal"]) == ("failed", True)
    assert drilled(store, Restored(), newest_within="365000d")["equal"]


BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
SEEDS = range(2000)


def interval(first_hour: float, hours: float, *, commit: int = 1, whole: bool = True) -> CoveredRange:
    """Return one that lasts so long."""
    start = BEGIN + timedelta(hours=first_hour)
    placed = Placed(make_block(at=start, whole=whole), commit)
    return CoveredRange(Chain(0x100, (placed,)), 0x100, 0x100, start, start + timedelta(hours=hours), placed)


def test_the_same_seed_chooses_the_same_moment_and_others_choose_others() -> None:
    found = [interval(0, 10)]
    chosen = [choose_moment(found, seed) for seed in SEEDS]
    assert chosen == [choose_moment(found, seed) for seed in SEEDS]
    assert len(set(chosen)) == len(SEEDS)


def test_every_restorable_hour_is_as_likely_as_any_other_and_gaps_are_never_chosen() -> None:
    found = [interval(0, 2), interval(10, 6), interval(100, 2)]
    moments = [datetime.fromisoformat(choose_moment(found, seed)) for seed in SEEDS]
    hours = Counter((moment - BEGIN) // timedelta(hours=1) for moment in moments)
    assert sorted(hours) == [0, 1, *range(10, 16), 100, 101]
    assert all(150 < count < 250 for count in hours.values())


def test_full_backups_alone_are_chosen_among() -> None:
    found = [interval(day, 0, commit=day) for day in range(1, 5)]
    chosen = Counter(choose_moment(found, seed) for seed in SEEDS)
    assert sorted(chosen) == ["commit:1", "commit:2", "commit:3", "commit:4"]
    assert min(chosen.values()) > 400


def test_backups_of_chosen_tables_are_restored_only_where_there_is_nothing_else() -> None:
    part, whole = interval(0, 5, whole=False), interval(50, 1)
    assert {choose_moment([part, whole], seed)[:13] for seed in SEEDS} == {"2026-03-03T02"}
    assert datetime.fromisoformat(choose_moment([part], 1)) < BEGIN + timedelta(hours=5)
