"""Commits by their keys: each is read from where it was written, and what is missing or exchanged is named."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.archive.format.checksum import add_checksum, checksum_of
from holdfast.archive.format.commits import (
    commit_key,
    missing_commit,
    missing_commits,
    number_of,
    parse_commit,
    read_commit,
)
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.versions import FORMAT, READS
from holdfast.common.errors import DamagedError, UsageError
from tests.support.stores.memory_store import MemoryStore

ONE, TWO = (f"commits/0000000000000000000{number}.json" for number in (1, 2))


def commit(sequence: int) -> ArchiveCommit:
    return ArchiveCommit(
        format=FORMAT, sequence=sequence, id=f"c{sequence}", parent=None, kind="backup", min_reader=1, min_writer=1,
        fence=None, committed_at=datetime(2026, 3, 1, tzinfo=UTC), writer="a test",
    )  # fmt: skip


@given(st.lists(st.integers(0, 10**20 - 1), min_size=2))
def test_keys_are_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    keys = [commit_key(number) for number in sorted(numbers)]
    assert keys == sorted(keys)
    assert [number_of(key) for key in keys] == sorted(numbers)


@pytest.mark.parametrize(
    "key",
    [
        "", "commits/", "commits/1.json", ONE[:-5], f"{ONE}~", ONE.replace("commits/", ""), f"old/{ONE}",
        ONE.replace("commits/0", "commits/-"), ONE.replace("1.json", "\u0661.json"), ONE.replace("1.json", "x.json"),
        "commits/000000000000000000001.json",
    ],
)  # fmt: skip
def test_what_is_not_named_as_a_commit_is_none(key: str) -> None:
    assert number_of(key) is None


def test_a_commit_is_read_from_its_key() -> None:
    store = MemoryStore()
    store.put(TWO, commit(2).to_bytes())
    assert read_commit(store, 2) == parse_commit(TWO, store.get(TWO))
    assert read_commit(store, 2).own_checksum == checksum_of(store.get(TWO))
    assert read_commit(store, 2).model_copy(update={"own_checksum": ""}) == commit(2)


def test_a_commit_that_is_not_there_is_named_with_what_stands_in_its_place() -> None:
    with pytest.raises(DamagedError, match=r"^commit 1 is missing\. Restore the commits folder from a copy"):
        read_commit(MemoryStore(), 1)
    assert str(missing_commit(1, TWO)).startswith(f"commit 1 is missing: found {TWO} where {ONE} should be. Restore")


def test_many_missing_commits_are_told_in_one_sentence() -> None:
    assert str(missing_commits(1, 1)) == str(missing_commit(1))
    assert str(missing_commits(1, 10**9)).startswith(
        "commits 1 to 1000000000 are missing, or commits/00000000001000000001.json is not ours. Restore the commits"
    )


def test_a_commit_under_the_key_of_another_one_was_exchanged() -> None:
    said = f"{ONE} holds commit 2: it was exchanged for another one. Restore this object from a copy of the archive."
    with pytest.raises(DamagedError, match=f"^{re.escape(said)}$"):
        parse_commit(ONE, commit(2).to_bytes())


def test_that_a_newer_release_is_needed_is_said_before_its_fields_are_looked_at() -> None:
    body = json.dumps({"format": 9, "min_reader": READS + 1, "sequence": "in words"}, indent=1).encode()
    with pytest.raises(UsageError, match=f"{ONE} needs a reader of format {READS + 1}"):
        parse_commit(ONE, add_checksum(body))
    with pytest.raises(DamagedError, match=f"^{ONE} is damaged or not ours: sequence"):
        parse_commit(ONE, add_checksum(body.replace(b"%d" % (READS + 1), b"1")))
