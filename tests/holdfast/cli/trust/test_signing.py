"""`holdfast signing`, and archives that are signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.common.signing import KEY_VARIABLE, SIGNERS_VARIABLE
from tests.support.jobs.command import RunCommand


@pytest.fixture(autouse=True)
def _no_signers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(SIGNERS_VARIABLE, raising=False)


@pytest.fixture
def key(holdfast: RunCommand, tmp_path: Path) -> tuple[str, str]:
    """The address of a key that signs, and its public key."""
    value = holdfast("signing", "new", str(tmp_path / "sign.key"), "--json").value
    return value["key"], value["public"]


@pytest.fixture
def archive(holdfast: RunCommand, tmp_path: Path) -> str:
    assert holdfast("init", str(tmp_path / "archive")).code == 0
    return str(tmp_path / "archive")


def test_a_new_key_prints_its_public_key_and_nothing_secret(holdfast: RunCommand, tmp_path: Path) -> None:
    done = holdfast("signing", "new", str(tmp_path / "sign.key"))
    assert "to check its signatures, other machines need ed25519:" in done.out
    assert (tmp_path / "sign.key").read_text().strip() not in done.out + done.err


def test_an_archive_is_signed_from_a_commit_on(
    holdfast: RunCommand, archive: str, key: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "not signed, of 0 commits; this process signs nothing, and asks for no signature"
        in holdfast("signing", "show", archive).out
    )
    monkeypatch.setenv(KEY_VARIABLE, key[0])
    done = holdfast("signing", "start", archive, "--yes", "--json")
    assert (done.code, done.value["commits"], done.value["public"]) == (0, {archive: 1}, key[1])
    shown = holdfast("signing", "show", archive, "--json").value
    assert shown == {"signed_since": 1, "commits_alone": False, "commit": 1, "signs": key[1], "believed": [key[1]]}
    assert (
        f"signed since commit 1, of 1 commit; this process signs with {key[1]}"
        in holdfast("signing", "show", archive).out
    )


def test_it_asks_before_it_vouches_and_says_what_it_needs(
    holdfast: RunCommand, archive: str, key: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = holdfast("signing", "start", archive, "--yes")
    assert (done.code, "say where the key that signs is" in done.err) == (2, True)
    monkeypatch.setenv(KEY_VARIABLE, key[0])
    done = holdfast("signing", "start", archive)
    assert (done.code, "vouches for all that is in archive now" in done.err) == (2, True)
    assert holdfast("signing", "show", archive, "--json").value["commit"] == 0


def test_archives_yaml_says_who_signs_and_who_is_believed(
    holdfast: RunCommand, archive: str, key: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archives.yaml").write_text(
        f"archives:\n  shop:\n    url: {archive}\n    signing:\n      key: {key[0]}\n      signers: ['{key[1]}']\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "archives.yaml"))
    monkeypatch.chdir(tmp_path)
    assert holdfast("signing", "start", "shop", "--yes").code == 0
    assert holdfast("signing", "show", "shop", "--json").value["signed_since"] == 1
    monkeypatch.delenv("HOLDFAST_CONFIG")
