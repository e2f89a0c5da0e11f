from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.common.errors import DamagedError
from holdfast.postgresql.values.date_text import (
    DAY_US,
    date_number,
    date_text,
    time_number,
    time_text,
    timestamp_number,
    timestamp_text,
)
from tests.support.generator.trials import tiered

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables

FIRST_DAY, END_DAY = -2_451_545, 2_145_031_949  # 4714-11-24 BC and after 5874897-12-31
FIRST_MOMENT, END_MOMENT = -211_813_488_000_000_000, 9_223_371_331_200_000_000


@settings(derandomize=True, max_examples=tiered(100, 300))
@given(st.integers(FIRST_DAY, END_DAY - 1))
def test_any_date_comes_back_from_its_text(days: int) -> None:
    assert date_number(date_text(days)) == days


@settings(derandomize=True, max_examples=tiered(100, 300))
@given(st.integers(FIRST_MOMENT, END_MOMENT - 1), st.sampled_from(["", "+00"]))
def test_any_timestamp_comes_back_from_its_text(microseconds: int, zone: str) -> None:
    assert timestamp_number(timestamp_text(microseconds, zone=zone)) == microseconds


@settings(derandomize=True, max_examples=tiered(50, 100))
@given(st.integers(0, DAY_US))
def test_any_time_of_day_comes_back_from_its_text(microseconds: int) -> None:
    assert time_number(time_text(microseconds)) == microseconds


@pytest.mark.parametrize("text", ["infinity", "-infinity"])
def test_infinities_are_the_ends_of_the_integer_range(text: str) -> None:
    assert abs(date_number(text)) in (2**31, 2**31 - 1)
    assert abs(timestamp_number(text)) in (2**63, 2**63 - 1)
    assert date_text(date_number(text)) == timestamp_text(timestamp_number(text)) == text


@pytest.mark.parametrize("text", ["", "yesterday", "2024-01", "2024-01-01 25", "2024-01-01 00:00:00 AD", "NaN"])
def test_what_is_no_date_is_damage(text: str) -> None:
    with pytest.raises(DamagedError, match="not a PostgreSQL date or time"):
        timestamp_number(text)


@pytest.mark.service
def test_the_server_writes_the_same_text_and_stores_the_same_number(tables: Tables) -> None:
    step = (END_MOMENT - FIRST_MOMENT) // 997
    moments = [*range(FIRST_MOMENT, END_MOMENT, step), END_MOMENT - 1, -1, 0, 2**63 - 1, -(2**63)]
    texts = [timestamp_text(moment, zone="+00") for moment in moments]
    rows = tables.session.execute(
        "select t::timestamptz::text, encode(timestamptz_send(t::timestamptz), 'hex') from unnest(%s::text[]) t",
        (texts,),
    ).fetchall()
    assert [row[0] for row in rows] == texts
    assert [int.from_bytes(bytes.fromhex(row[1]), signed=True) for row in rows] == moments


@pytest.mark.service
def test_the_server_writes_the_same_dates_and_stores_the_same_days(tables: Tables) -> None:
    step = (END_DAY - FIRST_DAY) // 997
    days = [*range(FIRST_DAY, END_DAY, step), END_DAY - 1, -1, 0, 2**31 - 1, -(2**31)]
    texts = [date_text(day) for day in days]
    rows = tables.session.execute(
        "select d::date::text, encode(date_send(d::date), 'hex') from unnest(%s::text[]) d", (texts,)
    ).fetchall()
    assert [row[0] for row in rows] == texts
    assert [int.from_bytes(bytes.fromhex(row[1]), signed=True) for row in rows] == days
