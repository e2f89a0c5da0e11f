"""Copies between stores of every kind, all the way round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from bench.support.versitygw import running_versitygw
from holdfast.archive.archive import Archive
from holdfast.archive.maintenance.copy_archive import copy
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.damaged_archive import add_backup, everything_in, fill
from tests.support.stores.azurite import running_azurite
from tests.support.stores.fake_gcs import running_fake_gcs

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A place on S3."""
    with pytest.MonkeyPatch.context() as patch, running_versitygw() as server:
        server.make_bucket("copies")
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield "s3://copies/here"


@pytest.fixture(scope="module")
def other_clouds() -> Iterator[list[str]]:
    """A place of each other cloud."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        azure = stack.enter_context(running_azurite())
        gcs = stack.enter_context(running_fake_gcs())
        azure.make_container("copies")
        gcs.make_bucket("copies")
        for name, value in {**azure.environment, **gcs.environment}.items():
            patch.setenv(name, value)
        yield ["az://copies/there", "gs://copies/everywhere"]


def go_round(places: list[ObjectStore]) -> None:
    for source, target in pairwise(places):
        copy(source, target)
        for key in (found.key for found in source.list("commits/").objects):
            assert source.get(key) == target.get(key)
    assert everything_in(places[-1]) == everything_in(places[0])


def there_and_back(clouds: list[str], folder: Path) -> None:
    """Copy an archive from store to store and into a folder again, twice: the second time there is a backup more."""
    source = fill(str(folder / "archive")).store
    places = [source, *map(open_store, clouds), open_store(str(folder / "back"))]
    go_round(places)
    add_backup(Archive.open(source), 4)
    go_round(places)


def test_an_archive_is_the_same_after_it_went_to_object_storage_and_back(s3: str, tmp_path: Path) -> None:
    there_and_back([s3], tmp_path)


@pytest.mark.exhaustive
def test_an_archive_is_the_same_after_it_went_through_every_store(
    s3: str, other_clouds: list[str], tmp_path: Path
) -> None:
    there_and_back([s3, *other_clouds], tmp_path)
