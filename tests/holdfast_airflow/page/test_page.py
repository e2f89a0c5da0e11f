"""The state of the page, bounded as airflow.cfg says."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast_airflow.page.looks import LookTimedOutError
from holdfast_airflow.page.page import Page


def test_airflow_cfg_says_how_long_a_look_may_take_and_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__HOLDFAST__PAGE_TIME_LIMIT", "0.01")
    monkeypatch.setenv("AIRFLOW__HOLDFAST__PAGE_LOOKS", "1")
    page, may_end = Page(), threading.Event()

    async def look_twice() -> list[str]:
        said = []
        for _ in range(2):
            with pytest.raises(LookTimedOutError) as refused:
                await page.looks.within(may_end.wait)
            said.append(str(refused.value))
        return said

    first, second = asyncio.run(look_twice())
    may_end.set()
    assert "has not answered within" in first
    assert second.startswith("1 looks at stores have not ended yet")
