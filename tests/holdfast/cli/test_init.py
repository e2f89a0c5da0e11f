"""`holdfast init`: a new archive in an empty place, and nothing in any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.cli.shared import places
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import ENVIRONMENT
from tests.support.jobs.command import RunCommand


def test_an_archive_is_made_and_said_to_be(holdfast: RunCommand) -> None:
    made = holdfast("init", "shop", "--json")
    here = str(Path.cwd() / "shop")
    assert (made.code, made.err) == (0, "")
    assert made.value == {
        "archive": Archive.open(open_store("shop")).identity.id,
        "name": "shop",
        "url": here,
        "format": 2,
        "encrypted": False,
    }
    assert holdfast("init", "other", "--name", "crm").out == f"created archive crm at {here[:-4]}other\n"
    assert Archive.open(open_store("other")).identity.name == "crm"


@pytest.mark.parametrize(("url", "name"), [("a/b c", "b c"), ("a/shop/", "shop"), ("file:///{}/x", "x"), (".", "here")])
def test_an_archive_is_named_by_the_end_of_its_url(
    holdfast: RunCommand, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holdfast("init", url.format(Path.cwd()), "--json").value["name"] == name


def test_an_older_format_can_be_asked_for_and_an_unknown_one_not(holdfast: RunCommand) -> None:
    assert holdfast("init", "old", "--format", "1", "--json").value["format"] == 1
    assert Archive.open(open_store("old")).state.min_reader == 1
    done = holdfast("init", "new", "--format", "9")
    assert (done.code, "there is no format 9" in done.err) == (2, True)
    assert not Path("new").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_an_archive_is_not_made_twice(holdfast: RunCommand, store: ObjectStore, as_json: bool) -> None:
    done = holdfast("init", store.url, *(["--json"] if as_json else []))
    assert (done.code, done.err) == (2, f"holdfast: {store.url} is an archive already\n")


@pytest.mark.parametrize("inside", ["", "/deeper"])
def test_a_file_in_the_place_of_the_folder_is_named(holdfast: RunCommand, inside: str) -> None:
    Path("file").write_text("mine")
    done = holdfast("init", f"file{inside}")
    assert (done.code, len(done.err.splitlines()), "choose another folder" in done.err) == (1, 1, True)
    assert Path("file").read_text() == "mine"


def test_an_encrypted_archive_is_said_to_be_with_what_opens_it(
    holdfast: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    monkeypatch.setenv(ENVIRONMENT, key := f"file:{tmp_path / 'key'}")
    done = holdfast("init", str(tmp_path / "archive"))
    assert done.out == f"created encrypted archive archive at {tmp_path / 'archive'}, opened by {key}\n"
    assert holdfast("init", str(tmp_path / "other"), "--json").value["encrypted"] is True


def test_a_name_in_archives_yaml_is_a_place(holdfast: RunCommand, tmp_path: Path) -> None:
    Path("archives.yaml").write_text(f"archives: {{shop: {{url: {tmp_path}/kept}}}}")
    assert holdfast("init", "shop", "--json").value["url"] == f"{tmp_path}/kept"
    assert Archive.open(places.archive_store("shop")).identity.name == "kept"
