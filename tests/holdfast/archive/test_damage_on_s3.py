"""Files of an archive in object storage, damaged in every way: found as in a folder (`test_damage.py` says what)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from bench.support.versitygw import running_versitygw
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.commits import commit_key
from tests.support.archives.damage import damages, lines, parquet_regions
from tests.support.archives.damaged_archive import Place, fill

pytestmark = pytest.mark.service

STRIDE = 23
"""`make test-all` does every damage to a file, `make test` one of so many."""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with running_versitygw() as server, pytest.MonkeyPatch.context() as patch:
        server.make_bucket("damaged")
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield fill("s3://damaged/archive")


def tell_of_data(place: Place, kind: str, stride: int) -> None:
    """Check that a damaged file of a block is named."""
    key = place.keys(kind)[0]
    body = place.written[key]
    for label, damaged in islice(damages(body, parquet_regions(body) if kind == ".parquet" else {}), 0, None, stride):
        place.put(key, damaged)
        place.must_tell(key, label, deep_only=len(damaged) == len(body))
    place.put(key, None)
    place.must_tell(key, "missing")
    place.put(key, body)
    assert place.read() == place.truth


def tell_of_documents(place: Place, key: str, stride: int) -> None:
    """Check that a damaged document is named, or says what it said."""
    body = place.written[key]
    told = 0
    for label, damaged in islice(damages(body, lines(body)), 0, None, stride):
        place.put(key, damaged)
        told += place.must_tell_or_be_harmless(key, label)
    assert told > 2
    place.put(key, body)
    assert place.read() == place.truth


@pytest.mark.parametrize("kind", ["catalog-", "schema-", ".parquet"])
def test_a_damaged_file_of_a_block_is_named(place: Place, kind: str) -> None:
    tell_of_data(place, kind, STRIDE)


@pytest.mark.parametrize("key", [IDENTITY_KEY, commit_key(2)])
def test_a_damaged_document_is_named(place: Place, key: str) -> None:
    tell_of_documents(place, key, 7 * STRIDE if key != IDENTITY_KEY else STRIDE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["catalog-", "schema-", ".parquet"])
def test_a_damaged_file_of_a_block_is_named_however_it_is_damaged(place: Place, kind: str) -> None:
    tell_of_data(place, kind, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", [IDENTITY_KEY, *(commit_key(number) for number in (1, 2, 3))])
def test_a_damaged_document_is_named_however_it_is_damaged(place: Place, key: str) -> None:
    tell_of_documents(place, key, 1)
