"""What a task keeps for its next try."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_airflow.jobs.between_tries import BetweenTries
from tests.support.airflow.operators import KeptBetweenTries


def between(store: Any) -> BetweenTries:
    return BetweenTries({"task_state_store": store} if store else {}, "moment")


def test_a_word_is_kept_until_it_is_forgotten() -> None:
    store = KeptBetweenTries()
    assert between(store).kept() is None
    between(store).keep("commit:7")
    assert between(store).kept() == "commit:7"
    between(store).forget()
    assert (between(store).kept(), between(store).is_there) == (None, True)


def test_where_there_is_no_such_store_nothing_is_kept() -> None:
    tries = between(None)
    tries.keep("commit:7")
    tries.forget()
    assert (tries.kept(), tries.is_there) == (None, False)


def test_an_airflow_that_does_not_answer_fails_no_task(caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        def get(self, key: str) -> str:
            raise RuntimeError("503")

        set = delete = get

    tries = between(Away())
    assert tries.kept() is None
    tries.keep("commit:7")
    tries.forget()
    assert len(caplog.messages) == 3
    assert "Airflow does not return what the try before has kept: 503" in caplog.text
