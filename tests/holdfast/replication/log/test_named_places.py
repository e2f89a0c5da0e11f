"""Places that a configuration names as replicas, beside those that the store knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import DamagedError, UsageError
from holdfast.common.side_by_side import NoAnswerError
from holdfast.replication.log.consistency_check import NamedPlaces
from holdfast.storage import open_store
from locking.store import StoreUnavailable
from tests.support.replicas.replicated import Replicas


def beside(named: dict[str, str], *known: str) -> NamedPlaces:
    return NamedPlaces.beside(known, named, open_store)


def test_a_place_is_asked_once_however_it_is_written(tmp_path: Path) -> None:
    url = str(tmp_path / "far")
    found = beside(
        {"near": str(tmp_path / "near/"), "far": url, "again": f"{url}/", "third": f"file://{url}"}, f"{tmp_path}/near"
    )
    assert found.names == {url: "far"}
    assert found.not_asked == ()


def test_one_that_cannot_be_opened_is_named_without_its_url() -> None:
    (told,) = beside({"far": "s3://user:s3cret@bucket/far"}).not_asked
    assert told.replica == "far"
    assert "s3cret" not in str(told.describe())
    assert "holds no credentials" in told.why


def test_only_a_replica_of_the_archive_says_anything(two: Replicas, tmp_path: Path) -> None:
    Archive.create(open_store(str(tmp_path / "other")), name="shop")
    (tmp_path / "empty").mkdir()
    places = {name: str(tmp_path / name) for name in ("far", "other", "empty", "nowhere")}
    found = beside(places)
    answers = {url: ask() for url, ask in found.questions(two.archive).items()}
    assert [url for url, answer in answers.items() if answer is not None] == [places["far"]]
    told, not_asked = found.positions(answers)
    assert (told[places["far"]].replica, not_asked) == ("far", ())


def test_what_is_damaged_there_is_an_answer_too(two: Replicas, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "far", tmp_path / "copy")
    (tmp_path / "copy" / "archive.json").write_bytes(b"no JSON")
    (ask,) = beside({"copy": str(tmp_path / "copy")}).questions(two.archive).values()
    with pytest.raises(DamagedError):
        ask()


@pytest.mark.parametrize(
    ("answer", "asked_again"),
    [(StoreUnavailable("503"), True), (UsageError("another key"), True), (NoAnswerError("no answer in 10 s"), False)],
)
def test_one_without_an_answer_is_named_and_one_that_hangs_is_left_alone_for_a_while(
    tmp_path: Path, answer: Exception, asked_again: bool
) -> None:
    url = str(tmp_path / "far")
    told, (silent,) = beside({"far": url}).positions({url: answer})
    assert (told, silent.replica, silent.url) == ({}, "far", url)
    again = beside({"far": url})
    assert (url in again.stores) == asked_again
    assert asked_again or "it has not answered, and is asked again in" in again.not_asked[0].why


def test_a_fault_of_ours_is_not_taken_for_silence(tmp_path: Path) -> None:
    url = str(tmp_path / "far")
    with pytest.raises(ZeroDivisionError):
        beside({"far": url}).positions({url: ZeroDivisionError()})
