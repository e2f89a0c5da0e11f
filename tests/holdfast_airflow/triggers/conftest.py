"""Triggers outside of Airflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast_airflow.triggers.pauses import SettledTrigger


@pytest.fixture(autouse=True)
def _no_scheduler_to_wait_for() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:  # of its own: a test may undo its patches on the way
        patch.setattr(SettledTrigger, "settle_s", 0.0)
        yield
