"""`holdfast accept`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.last_seen import VARIABLE
from tests.support.jobs.command import RunCommand


def test_an_archive_that_was_put_back_is_refused_until_it_is_accepted(
    holdfast: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    place = tmp_path / "archive"
    assert holdfast("init", str(place), "--name", "shop").code == 0
    shutil.copytree(place, tmp_path / "older")
    key = str(tmp_path / "sign.key")
    assert holdfast("signing", "new", key).code == 0
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", f"file:{key}")
    assert holdfast("signing", "start", str(place), "--yes").code == 0
    done = holdfast("accept", str(place), "--reason", "none", "--yes")
    assert (done.code, "there is nothing to accept" in done.err) == (2, True)
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "older", place)
    done = holdfast("status", str(place))
    assert (done.code, "was put back to an older state" in done.err) == (4, True)
    done = holdfast("accept", str(place), "--reason", "the bucket was restored")
    assert (done.code, "the later state, commit 1 of shop" in done.err, "Add --yes" in done.err) == (2, True, True)
    done = holdfast("accept", str(place), "--reason", "the bucket was restored", "--yes", "--json")
    assert (done.code, done.value["commit"], done.value["superseded"]["sequence"]) == (0, 1, 1)
    assert holdfast("status", str(place)).code == 0


def test_an_archive_with_an_empty_commit_goes_on_once_its_number_is_given_up(
    holdfast: RunCommand, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    assert holdfast("init", str(place), "--name", "shop").code == 0
    empty = place / commit_key(1)
    empty.parent.mkdir(exist_ok=True)
    empty.touch()
    done = holdfast("status", str(place))
    assert (done.code, "holdfast accept --void" in done.err) == (4, True)
    give_up = ("accept", str(place), "--void", "1", "--reason", "the quota was full")
    done = holdfast(*give_up)
    assert (done.code, "number 1 of shop will never count" in done.err, "Add --yes" in done.err) == (2, True, True)
    done = holdfast(*give_up, "--yes")
    assert (done.code, "may still be written: try again in" in done.err) == (3, True)
    os.utime(empty, (0, 0))
    done = holdfast(*give_up, "--yes", "--json")
    assert (done.code, done.value["commit"], done.value["voided"]) == (0, 2, [1])
    assert holdfast("status", str(place)).code == 0
    assert holdfast("verify", str(place)).code == 0
    done = holdfast(*give_up, "--yes")
    assert (done.code, "its commits end at 2" in done.err) == (2, True)
    assert empty.exists()
