"""Which moments drills restore: any that can be, each as likely as any other."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from bench.support.blocks import make_block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.history.coverage import Chain, CoveredRange
from holdfast.drill.drill import choose_moment

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
