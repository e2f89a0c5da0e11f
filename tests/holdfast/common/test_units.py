"""Amounts as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.common.errors import UsageError
from holdfast.common.units import parse_bandwidth, parse_budget, parse_size, parse_span


def test_sizes_and_bandwidths_are_read() -> None:
    sizes = {"10 GiB": 10 << 30, "500MB": 500_000_000, "1.5 TB": 1_500_000_000_000, "8kiB": 8192, "7 B": 7}
    assert {words: parse_size(words) for words in sizes} == sizes
    bandwidths = {"50 MB": 50e6, "1.5GB/s": 1.5e9, "800kB": 8e5, "7 B/s": 7.0}
    assert {words: parse_bandwidth(words) for words in bandwidths} == bandwidths
    for words in ("", "50", "0 MB", "50 MiB", "fast"):
        with pytest.raises(UsageError, match="bytes a second with a unit, such as 50 MB"):
            parse_bandwidth(words)


@pytest.mark.parametrize("words", ["", "50", "0 MB", "-1 MB", "50 MB/s", "much", "1e9 B"])
def test_size_that_is_none_is_refused_with_an_example(words: str) -> None:
    with pytest.raises(UsageError, match="such as 10 GiB or 500 MB"):
        parse_size(words)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0h", 0), ("90s", 90), ("90 min", 5400), ("24h", 86400), ("1.5d", 129600), ("2w", 1209600)]
)
def test_length_of_time_is_read(text: str, seconds: float) -> None:
    assert parse_span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1m", "1 day", "1h30min"])
def test_length_of_time_that_is_none_says_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match="such as 24h or 30d"):
        parse_span(text)


@pytest.mark.parametrize("text", ["99999999w", "366001d", f"{'9' * 400}s"])
def test_length_of_time_beyond_the_calendar_says_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match=r"longer than a thousand years: .* such as 24h or 30d"):
        parse_span(text)
    with pytest.raises(UsageError, match="longer than a thousand years"):
        parse_budget(text)


def test_budget_is_bytes_or_time() -> None:
    assert (parse_budget("100 GB"), parse_budget("2h")) == (100_000_000_000, timedelta(hours=2))
    with pytest.raises(UsageError, match="as a budget: write bytes with a unit, such as 100 GB, or a length of time"):
        parse_budget("everything")
