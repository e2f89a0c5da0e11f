"""The bench of scale counts what object storage would be asked, and fits how it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.scale import MEASURES, OPEN, OPERATIONS, Cost, CountingStore, Growth, Scale, as_markdown, fit, measure
from bench.support.grown_archive import Shape, make_archive
from holdfast.archive import Archive


def test_requests_and_bytes_are_counted(tmp_path: Path) -> None:
    make_archive(tmp_path / "a", Shape(commits=5, blocks=5, files=5, tail=1))
    store = CountingStore(str(tmp_path / "a"))
    Archive.open(store)
    asked = store.requests
    assert 3 <= asked <= 8
    assert store.moved > 1_000
    store.put("a", b"12")
    assert len(store.get("a")) == 2
    assert "a" in {info.key for info in store.list("a").objects}
    assert store.requests == asked + 3


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_the_exponent_is_that_of_the_growth(power: float) -> None:
    assert fit([(size, 3 * size**power) for size in (10.0, 100.0, 1000.0)]) == pytest.approx(power)


def test_what_is_too_small_tells_nothing() -> None:
    costs = (Cost(1, 100, 0.0001, 0), Cost(1, 1_000, 0.01, 5_000_000), Cost(1, 10_000, 0.1, 50_000_000))
    growth = Growth("files", (1, 10, 100), {OPEN: costs})
    found = {name: growth.exponent(OPEN, name) for name in MEASURES}
    assert found == pytest.approx({"requests": 0.0, "bytes": 1.0, "seconds": 1.0, "memory": 1.0})
    assert Growth("files", (1, 10, 100), {OPEN: costs[:1] * 3}).exponent(OPEN, "seconds") is None


@pytest.mark.exhaustive
@pytest.mark.slow
def test_each_operation_is_measured_and_shown() -> None:
    found = measure({"sources": (1, 3)}, rounds=1)
    (growth,) = found.growths
    assert set(growth.costs) == {OPEN, *OPERATIONS}
    assert all(cost.seconds > 0 for costs in growth.costs.values() for cost in costs)
    assert growth.costs["commit a backup of ten files"][0].requests >= 1
    assert growth.costs["plan a compaction"][0].requests == 0
    told = as_markdown(Scale([growth], {"Processor": "x"}, "today"))
    assert all(f"| {name} | " in told for name in growth.costs)
    assert "## Sources: 1, 3" in told
