"""Versions of the format: they are read before all else, also of documents that a newer release has written."""

from __future__ import annotations

import json

import pytest

from holdfast.archive.format.checksum import add_checksum
from holdfast.archive.format.versions import Versions, read_versions
from holdfast.common.errors import DamagedError

KEY = "commits/00000000000000000001.json"


def test_a_document_of_a_newer_release_says_which_version_it_needs() -> None:
    document = {"format": 9, "min_reader": 8, "min_writer": 7, "add": "in a shape that nobody has seen"}
    for body in (json.dumps(document).encode(), add_checksum(json.dumps(document, indent=1).encode())):
        assert read_versions(body, KEY) == Versions(format=9, min_reader=8, min_writer=7)


def test_where_no_version_is_asked_for_the_first_one_will_do() -> None:
    assert read_versions(b'{"format": 1}', KEY) == Versions(format=1, min_reader=1, min_writer=1)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"{}", b'{"format": "two"}', b'{"format": 1, "min_reader": null}', b"\xff"]
)
def test_what_states_no_format_is_named_as_damaged(body: bytes) -> None:
    with pytest.raises(DamagedError, match=rf"^{KEY} is damaged or not ours: it states no format\. Restore this"):
        read_versions(body, KEY)


def test_a_version_is_believed_only_under_a_seal_that_fits() -> None:
    body = add_checksum(b'{\n "format": 2,\n "min_reader": 4\n}').replace(b"4", b"1", 1)
    with pytest.raises(DamagedError, match=f"^{KEY} is damaged: its checksum is another"):
        read_versions(body, KEY)
