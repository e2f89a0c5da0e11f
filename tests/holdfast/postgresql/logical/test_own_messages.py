"""What a message in the log is taken for, which anybody may have written."""

from __future__ import annotations

import pytest

from holdfast.postgresql.logical.own_messages import mark_in, said_in


def test_a_mark_has_a_name_and_the_id_that_it_was_announced_by() -> None:
    assert mark_in(b'{"mark": "before 4.2", "id": "0a"}') == ("before 4.2", "0a")
    assert mark_in('{"mark": "é"}'.encode()) == ("é", "")  # by an earlier release


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b"7", b'"mark"', b"\xff", b"[" * 200_000, b"9" * 9_000])
def test_what_is_no_json_object_says_nothing(content: bytes) -> None:
    assert said_in(content) == {}
    assert mark_in(content) is None


@pytest.mark.parametrize(
    "name", ["7", "null", '["x"]', '"\\ud800"', '"\\u0000"', '"two\\nlines"', '"' + "x" * 101 + '"']
)
def test_a_name_that_no_mark_can_have_is_none(name: str) -> None:
    assert mark_in(f'{{"mark": {name}, "id": {name}}}'.encode()) == ("", "")
