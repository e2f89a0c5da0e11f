"""Samples: one value of one metric of the catalogue each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.metrics.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True)
class Sample:
    """One value; its metric and labels are those of the catalogue.

    :raises ValueError: the catalogue has no such metric, or it has other labels.
    """

    name: str
    labels: Mapping[str, str]
    value: float

    def __post_init__(self) -> None:
        metric = CATALOGUE.get(self.name)
        if metric is None or tuple(self.labels) != metric.labels:
            raise ValueError(f"the catalogue has no metric {self.name} with the labels {', '.join(self.labels)}")

    def describe(self) -> dict[str, Any]:
        """Return it as `metrics --json` prints it."""
        return {"name": self.name, "labels": dict(self.labels), "value": self.value}


def sample(name: str, value: float | datetime, *labels: str) -> Sample:
    """Return a sample.

    :param value: a number, or a time.
    :param labels: their values, in the order of the catalogue.
    """
    number = float(value) if isinstance(value, (int, float)) else value.timestamp()
    return Sample(name, dict(zip(CATALOGUE[name].labels, labels, strict=True)), number)
