"""A stand-in for the place that Airflow sends its metrics to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk.observability import stats

Sent = tuple[str, str, dict[str, str]]
"""The kind of a metric, its name and its tags."""


@dataclass
class SentMetrics:
    """Metrics that were sent, each with its value."""

    values: list[tuple[Sent, float]] = field(default_factory=list)

    def incr(self, stat: str, count: int = 1, *, tags: dict[str, str] | None = None) -> None:
        self._add("count", stat, count, tags)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str] | None = None) -> None:
        self._add("gauge", stat, value, tags)

    def timing(self, stat: str, dt: float, *, tags: dict[str, str] | None = None) -> None:
        self._add("timing", stat, dt, tags)

    def _add(self, kind: str, stat: str, value: float, tags: dict[str, str] | None) -> None:
        self.values.append(((kind, stat, tags or {}), value))

    def of(self, stat: str) -> list[tuple[dict[str, str], float]]:
        """Return tags and value of each metric of a name."""
        return [(tags, value) for (_, name, tags), value in self.values if name == stat]

    def names(self) -> list[str]:
        return [name for (_, name, _), _ in self.values]


@contextmanager
def sent_to(factory: Any) -> Iterator[None]:
    """Send Airflow's metrics to what a factory makes, while the block runs."""
    before = stats.initialize.__globals__["_factory"], stats.initialize.__globals__["_export_legacy_names"]
    stats.initialize(factory=factory, export_legacy_names=False)
    try:
        yield
    finally:
        stats.initialize(factory=before[0], export_legacy_names=before[1])
