"""Keys of objects: what may be one on every store."""

from __future__ import annotations

import pytest

from holdfast.storage.contract.keys import (
    MAX_KEY_BYTES,
    MAX_PART_BYTES,
    InvalidKey,
    check_key,
    check_prefix,
    is_placeholder,
)

LONG = "/".join(["x" * 127] * 8)


@pytest.mark.parametrize("key", ["a", "data/shop db/ä.parquet", "..a/b..", "x" * MAX_PART_BYTES, LONG])
def test_a_key_is_a_path_of_names(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "is not empty"),
        ("/a", "empty part"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        (".", "part '.'"),
        ("a/../b", "part '.' or '..'"),
        ("a\\b", "a backslash or a control character"),
        ("a\nb", "a backslash or a control character"),
        ("a\x7f", "a backslash or a control character"),
        ("a\ud800", "is not valid Unicode"),
        ("x" * (MAX_PART_BYTES + 1), f"a part of more than {MAX_PART_BYTES} bytes"),
        ("ä" * (MAX_PART_BYTES // 2 + 1), f"a part of more than {MAX_PART_BYTES} bytes"),
        (f"{LONG}/x", f"{MAX_KEY_BYTES + 1} bytes; {MAX_KEY_BYTES} is the most"),
        (".holdfast-tmp-1/a", "reserved for temporary files"),
    ],
)
def test_any_other_key_is_refused_with_the_reason(key: str, said: str) -> None:
    with pytest.raises(InvalidKey, match=said):
        check_key(key)


def test_only_names_at_the_top_are_kept_for_temporary_files() -> None:
    assert check_key("a/.holdfast-tmp-1")


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/.h"])
def test_a_prefix_is_the_beginning_of_a_key(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["/", "a//", "a/../", "..", "a/.", "a\\", "x" * (MAX_KEY_BYTES + 1)])
def test_a_prefix_that_no_key_has_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidKey):
        check_prefix(prefix)


@pytest.mark.parametrize(("key", "is_one"), [("", True), ("a/", True), ("a/b/", True), ("a", False), ("a/b", False)])
def test_empty_folders_of_other_tools_are_told_by_their_keys(key: str, is_one: bool) -> None:
    assert is_placeholder(key) is is_one
