"""The page on upgrades has the numbers and the sentences of this release."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.archive.format.state import State, check_readable, check_writable
from holdfast.archive.format.versions import FORMAT, READS, WRITES, Versions
from holdfast.common.errors import UsageError

PAGE = (Path(__file__).parents[2] / "docs" / "upgrading.md").read_text()


def test_the_numbers_end_with_those_of_this_release() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", PAGE.partition("## When the numbers rise")[2], re.MULTILINE)
    assert [int(number) for number, _, _ in rows[: max(READS, WRITES)]] == [*range(1, max(READS, WRITES) + 1)]
    assert (len(rows), READS, WRITES) == (7, 7, 7)  # a new number is a new row; an empty cell where only one has it
    assert f"New archives have format {FORMAT}" in PAGE


def test_refusals_are_quoted_as_they_are_said() -> None:
    quoted = [re.escape(each).replace("…", ".+") for each in re.findall(r"`([^`]*…[^`]*)`", PAGE)]
    with pytest.raises(UsageError) as reader:
        check_readable(Versions(format=9, min_reader=9), "archive.json")
    with pytest.raises(UsageError) as writer:
        check_writable(replace(State.begun(2), min_writer=9))
    store = "the coordination store sqlite:///a is of a newer release: upgrade holdfast"
    for said in (str(reader.value), str(writer.value), store):
        assert any(re.match(each, said) for each in quoted), said
