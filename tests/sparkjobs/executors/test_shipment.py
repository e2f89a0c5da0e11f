"""What a task is made of when its worker is on another machine."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.common.errors import UsageError
from holdfast.common.remote_environment import RemoteEnvironment, needed
from holdfast.common.value_limit import MAX_VALUE_VARIABLE
from sparkjobs.executors.shipment import Shipment, ship


class Place:
    """Something that is opened by what a variable says."""

    def __init__(self) -> None:
        self.opened_by = os.environ.get("PLACE")

    def __reduce__(self) -> tuple[Any, ...]:
        if (remote := needed()) is not None:
            remote.add({"PLACE": "the driver's"})
        return Place, ()


class Tasks:
    """Tasks as Spark keeps them: pickled by the driver, and unpickled one after the other by a worker."""

    def __init__(self, items: Iterable[Any], parts: int) -> None:
        self.items = [pickle.dumps(item) for item in items]
        assert len(self.items) == parts

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> Iterable[Any]:  # noqa: N802
        return function(pickle.loads(item) for item in self.items)  # noqa: S301 - our own bytes


class Context:
    parallelize = staticmethod(Tasks)


def test_the_environment_is_there_before_anything_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteEnvironment, "in_force", None)
    monkeypatch.setenv("PLACE", "the worker's")
    monkeypatch.setenv(MAX_VALUE_VARIABLE, "77")
    place = Place()

    def work(items: Iterable[Place]) -> Iterator[Any]:
        for item in items:
            yield place.opened_by, item.opened_by, os.environ[MAX_VALUE_VARIABLE]

    shipped: Any = ship(Context(), [Place(), Place()], work)  # type: ignore[arg-type]
    monkeypatch.delenv(MAX_VALUE_VARIABLE)
    assert list(shipped) == [("the driver's", "the driver's", "77")] * 2


def test_another_release_is_refused_with_both() -> None:
    shipment = Shipment("0.0.9", RemoteEnvironment({"PLACE": "never"}), b"never unpickled")
    with pytest.raises(UsageError, match=rf"has Holdfast {holdfast.__version__} at .* and this driver has 0\.0\.9"):
        list(shipment([]))
    assert os.environ.get("PLACE") != "never"
