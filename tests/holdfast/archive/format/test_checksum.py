"""The checksum at the end of a document: it covers everything before it, and damage is never taken for content."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.archive.format.checksum import add_checksum, check_checksum, checksum_of, wrong_checksum
from holdfast.common.errors import DamagedError

BODY = json.dumps({"id": "b1", "rows": 10}, indent=1).encode()


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), min_size=1))
def test_a_sealed_document_is_the_same_with_one_field_more(document: dict[str, object]) -> None:
    document.pop("checksum", None)
    document["last"] = 1
    body = json.dumps(document, indent=1).encode()
    sealed = add_checksum(body)
    assert check_checksum(sealed, "x.json")
    read = json.loads(sealed)
    assert list(read) == [*document, "checksum"]
    assert read.pop("checksum") == hashlib.sha256(body.removesuffix(b"\n}")).hexdigest()
    assert read == document


def test_a_document_without_a_seal_is_told_from_a_damaged_one() -> None:
    assert not check_checksum(BODY, "x.json")
    assert not check_checksum(b"", "x.json")


@given(st.integers(0, len(add_checksum(BODY)) - 1), st.integers(0, 7))
def test_no_flipped_bit_of_the_content_passes_for_the_document(place: int, bit: int) -> None:
    """One in the checksum's own syntax may make it look like none: the content is right, and format 2 refuses it."""
    damaged = bytearray(add_checksum(BODY))
    damaged[place] ^= 1 << bit
    refused = str(wrong_checksum("x.json", "its checksum is another than its bytes have"))
    in_content = place < len(BODY.removesuffix(b"\n}"))
    assert judged(bytes(damaged)) in ([refused] if in_content else [refused, "not sealed"])


def judged(body: bytes) -> str:
    try:
        return "sealed" if check_checksum(body, "x.json") else "not sealed"
    except DamagedError as error:
        return str(error)


def test_a_document_of_several_seals_is_judged_by_the_last() -> None:
    inner = add_checksum(BODY)
    assert check_checksum(add_checksum(inner), "x.json")
    with pytest.raises(DamagedError, match=r"^x\.json is damaged: its checksum is another"):
        check_checksum(inner.removesuffix(b"\n}") + inner[len(BODY) - 2 :], "x.json")


def test_the_error_names_the_object_and_what_to_do() -> None:
    assert str(wrong_checksum("commits/1.json", "its checksum is not there")) == (
        "commits/1.json is damaged: its checksum is not there. Restore this object from a copy of the archive."
    )


def test_a_document_is_known_by_its_seal_or_by_all_its_bytes() -> None:
    body = b'{\n "a": 1\n}'
    assert checksum_of(add_checksum(body)) == hashlib.sha256(b'{\n "a": 1').hexdigest()
    assert checksum_of(body) == hashlib.sha256(body).hexdigest()
