"""Positions of the log."""

from __future__ import annotations

import pytest

from holdfast.common.lsn import between_records, parse_position, show_position


@pytest.mark.parametrize("text", ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"])
def test_a_position_is_written_as_it_was_read(text: str) -> None:
    assert show_position(parse_position(text)) == text


@pytest.mark.parametrize("text", ["", "0", "0/", "0/123456789", "0/G", " 0/1", "0/1\n", "-1/1", "0/\u0661"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no log position"):
        parse_position(text)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("0/2000", "0/2000"),
        ("0/2018", "0/2000"),  # the header of a page
        ("0/1000028", "0/1000000"),  # that of a segment's first one
        ("0/1000030", "0/1000030"),
        ("0/1FF8", "0/1FF8"),
    ],
)
def test_who_is_in_the_header_of_a_page_is_before_it(position: str, expected: str) -> None:
    assert show_position(between_records(parse_position(position))) == expected
