"""`holdfast key`, and archives that it opens."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.storage import ObjectStore
from holdfast.storage.encryption.key_source import ENVIRONMENT
from tests.support.jobs.command import RunCommand


@pytest.fixture
def key(holdfast: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a key, which the environment says, too."""
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    monkeypatch.setenv(ENVIRONMENT, address := f"file:{tmp_path / 'key'}")
    return address


@pytest.fixture
def archive(holdfast: RunCommand, key: str, tmp_path: Path) -> str:
    """An encrypted archive."""
    assert holdfast("init", str(tmp_path / "archive")).code == 0
    return str(tmp_path / "archive")


def test_a_new_key_is_for_its_owner_alone_and_is_not_shown(holdfast: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "key"
    done = holdfast("key", "new", str(path), "--json")
    assert done.value["key"] == f"file:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() not in done.out + done.err


def test_no_key_is_written_over_another(holdfast: RunCommand, key: str) -> None:
    path = Path(key.removeprefix("file:"))
    before = path.read_text()
    done = holdfast("key", "new", str(path))
    assert (done.code, "may be the only key of an archive" in done.err) == (2, True)
    assert path.read_text() == before


def test_a_folder_that_is_not_there_is_said_so(holdfast: RunCommand, tmp_path: Path) -> None:
    done = holdfast("key", "new", str(tmp_path / "no" / "key"))
    assert (done.code, "cannot be written" in done.err) == (2, True)


def test_the_keys_of_an_archive_are_shown_without_a_secret(holdfast: RunCommand, archive: str, key: str) -> None:
    done = holdfast("key", "show", archive)
    assert done.out.startswith("opened by the key ")
    assert f"read here from {key}" in done.out
    value = holdfast("key", "show", archive, "--json").value
    assert value["key"] == key
    assert len(value["document"]["keys"]) == 1
    assert Path(key.removeprefix("file:")).read_text().strip() not in str(value)


def test_keys_are_exchanged(
    holdfast: RunCommand, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holdfast("key", "new", str(tmp_path / "next")).code == 0
    done = holdfast("key", "rotate", archive, "--to", f"file:{tmp_path / 'next'}", "--yes")
    assert (done.code, done.out.count("reading")) == (0, 2)
    assert holdfast("status", archive).code == 2
    monkeypatch.setenv(ENVIRONMENT, f"file:{tmp_path / 'next'}")
    assert holdfast("status", archive).code == 0


def test_who_cannot_be_asked_has_to_say_yes(holdfast: RunCommand, archive: str, tmp_path: Path) -> None:
    assert holdfast("key", "new", str(tmp_path / "next")).code == 0
    to = f"file:{tmp_path / 'next'}"
    done = holdfast("key", "rotate", archive, "--to", to, "--json")
    assert (done.code, "nothing was done. Add --yes" in done.value["error"]) == (2, True)
    assert f"from now on {to} opens archive" in done.err
    assert len(holdfast("key", "show", archive, "--json").value["document"]["keys"]) == 1


def test_a_rotation_that_was_ended_early_is_told(holdfast: RunCommand, archive: str) -> None:
    old = (Path(archive) / "keys" / "00000001.json").read_bytes()
    assert holdfast("key", "rotate", archive, "--yes").code == 0
    (Path(archive) / "keys" / "00000001.json").write_bytes(old)
    assert "keys/00000001.json is still there, and its key opens the archive" in holdfast("key", "show", archive).err
    assert holdfast("key", "rotate", archive, "--yes").code == 0
    assert "is still there" not in holdfast("key", "show", archive).err


def test_a_key_that_is_not_there_exchanges_nothing(holdfast: RunCommand, archive: str) -> None:
    done = holdfast("key", "rotate", archive, "--to", "file:/no/such/key")
    assert (done.code, "cannot be read" in done.err) == (2, True)
    assert len(holdfast("key", "show", archive, "--json").value["document"]["keys"]) == 1


@pytest.mark.parametrize("word", ["show", "rotate"])
def test_an_archive_in_the_clear_has_no_keys(holdfast: RunCommand, tmp_path: Path, word: str) -> None:
    assert holdfast("init", str(tmp_path / "plain")).code == 0
    done = holdfast("key", word, str(tmp_path / "plain"))
    assert (done.code, "is not encrypted" in done.err) == (2, True)


def test_a_copy_that_was_begun_in_the_clear_is_not_gone_on_with_encrypted(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    to = str(tmp_path / "copy")
    assert holdfast("copy", filled.url, to).code == 0
    (tmp_path / "copy" / "archive.json").unlink()  # as if it had been killed before its last step
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    done = holdfast("copy", filled.url, to, "--to-key", f"file:{tmp_path / 'key'}")
    assert (done.code, "a copy in the clear was begun in" in done.err) == (2, True)
    assert not (tmp_path / "copy" / "keys").exists()
    assert holdfast("copy", filled.url, to).code == 0


def test_an_encrypted_archive_is_repaired_from_a_copy_in_the_clear(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    to, key = str(tmp_path / "copy"), f"file:{tmp_path / 'key'}"
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    assert holdfast("copy", filled.url, to, "--to-key", key).code == 0
    Path("archives.yaml").write_text(
        f"archives: {{plain: {{url: {filled.url}}}, shop: {{url: {to}, encryption: {{key: '{key}'}}}}}}"
    )
    (path,) = [each for each in (tmp_path / "copy").rglob("data/**/00000*") if each.is_file()]
    path.write_bytes(b"damaged")
    assert holdfast("verify", "shop", "--deep").code == 4
    assert holdfast("verify", "shop", "--deep", "--repair-from", "plain").code == 0
    assert holdfast("verify", "shop", "--deep").code == 0


def test_archives_yaml_says_where_the_key_is(
    holdfast: RunCommand, archive: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    assert holdfast("status", archive).code == 2
    Path("archives.yaml").write_text(f"archives: {{shop: {{url: {archive}, encryption: {{key: '{key}'}}}}}}")
    assert holdfast("status", "shop").code == 0
    assert holdfast("status", archive).code == 0


def test_keys_that_are_put_back_after_a_rotation_are_noticed(
    holdfast: RunCommand, archive: str, tmp_path: Path
) -> None:
    first = Path(archive, "keys", "00000001.json")
    before = first.read_bytes()
    done = holdfast("key", "rotate", archive, "--yes", "--json")
    assert (done.code, done.value["commit"]) == (0, 1)
    Path(archive, "keys", "00000002.json").rename(tmp_path / "newest")
    first.write_bytes(before)
    done = holdfast("status", archive)
    assert (done.code, "its keys/ are older than it" in done.err) == (4, True)
    (tmp_path / "newest").rename(Path(archive, "keys", "00000002.json"))
    assert holdfast("status", archive).code == 0


def test_the_keys_of_a_copy_are_exchanged_without_a_commit(holdfast: RunCommand, archive: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert holdfast("copy", archive, copy, "--to-key", f"file:{tmp_path / 'key'}").code == 0
    done = holdfast("key", "rotate", copy, "--yes", "--json")
    assert (done.code, done.value["commit"], "is a copy: the next commit" in done.err) == (0, None, True)
    assert holdfast("copy", archive, copy, "--to-key", f"file:{tmp_path / 'key'}").code == 0
    assert holdfast("status", copy).code == 0
