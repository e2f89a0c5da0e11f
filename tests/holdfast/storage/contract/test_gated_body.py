"""A body whose last byte waits: whatever is read before it is sent, and however."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.contract.gated_body import GatedBody, arm, skip_expect


class Gate:
    """Notes how much had been read when it was asked."""

    def __init__(self) -> None:
        self.read = b""
        self.asked_after: list[bytes] = []

    def __call__(self) -> None:
        self.asked_after.append(self.read)


def read_all(body: GatedBody, gate: Gate, sizes: list[int | None]) -> bytes:
    """Read by given sizes, and then to the end."""
    for size in (*sizes, *[None] * 3):
        gate.read += body.read(size)
    return gate.read


@given(st.binary(min_size=1, max_size=20), st.lists(st.none() | st.integers(-1, 30).filter(bool), max_size=6))
def test_the_gate_is_asked_once_when_all_but_the_last_byte_was_read(content: bytes, sizes: list[int | None]) -> None:
    gate = Gate()
    body = GatedBody(content, gate)
    body.armed = True
    assert read_all(body, gate, sizes) == content
    assert gate.asked_after == [content[:-1]]
    assert body.read() == b""
    assert len(gate.asked_after) == 1


def test_what_is_read_to_be_signed_asks_nobody() -> None:
    gate = Gate()
    body = GatedBody(b"content", gate)
    assert body.read() == b"content"
    body.seek(0)
    assert gate.asked_after == []
    arm(SimpleNamespace(body=body), event_name="before-send")
    assert read_all(body, gate, [3]) == b"content"
    assert gate.asked_after == [b"conten"]


def test_an_empty_body_has_no_last_byte() -> None:
    gate = Gate()
    body = GatedBody(b"", gate)
    body.armed = True
    assert (body.read(), gate.asked_after) == (b"", [])


def test_a_gate_that_is_shut_keeps_the_last_byte() -> None:
    def shut() -> None:
        raise TimeoutError("nobody came")

    body = GatedBody(b"ab", shut)
    body.armed = True
    assert body.read() == b"a"
    with pytest.raises(TimeoutError):
        body.read()
    assert body.tell() == 1


def test_a_gated_body_is_sent_without_asking_first_and_others_as_they_are() -> None:
    for body, left in ((GatedBody(b"x", Gate()), {}), (b"x", {"Expect": "100-continue"})):
        params: dict[str, Any] = {"body": body, "headers": {"Expect": "100-continue"}}
        skip_expect(params, model=None)
        assert params["headers"] == left
    params = {"headers": {"Expect": "100-continue"}}
    skip_expect(params)
    assert params["headers"] == {"Expect": "100-continue"}
    arm(SimpleNamespace(body=b"plain"))
