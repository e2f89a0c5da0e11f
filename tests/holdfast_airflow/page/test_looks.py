from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast_airflow.page.looks import Looks, LookTimedOutError


def test_a_look_returns_or_raises_what_it_does() -> None:
    looks = Looks()
    assert asyncio.run(looks.within(lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        asyncio.run(looks.within(lambda: 1 // 0))


def test_a_store_that_hangs_is_left_to_itself_and_keeps_no_other_from_being_looked_at() -> None:
    looks, hang = Looks(limit_s=0.05, most=2), threading.Event()

    async def both() -> int:
        with pytest.raises(LookTimedOutError, match="has not answered within"):
            await looks.within(hang.wait)
        return await looks.within(lambda: 7)

    assert asyncio.run(both()) == 7
    hang.set()


def test_looks_that_have_not_ended_are_bounded_and_count_until_they_end() -> None:
    looks, hang, ended = Looks(limit_s=0.05, most=1), threading.Event(), threading.Event()

    def look() -> None:
        hang.wait()
        ended.set()

    async def more() -> None:
        with pytest.raises(LookTimedOutError):
            await looks.within(look)
        with pytest.raises(LookTimedOutError, match="1 looks at stores have not ended yet"):
            await looks.within(lambda: 7)

    asyncio.run(more())
    hang.set()
    ended.wait()
    # The thread gives its place back just after its look has ended.
    for _ in range(200):
        try:
            assert asyncio.run(looks.within(lambda: 7)) == 7
            break
        except LookTimedOutError:
            threading.Event().wait(0.01)
    else:
        pytest.fail("the place was not given back")
