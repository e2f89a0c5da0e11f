"""Jobs that do nothing but return a result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.airflow.operators import FakeSpark, Play


@pytest.fixture
def play(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Lets the next jobs do nothing but return a result."""

    def tell(result: dict[str, Any]) -> None:
        spark.play("tell")
        monkeypatch.setenv("FAKE_RESULT", json.dumps(result))

    return tell
