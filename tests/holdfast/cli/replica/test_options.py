"""Which store and which archive a command of replicas means, and which key opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.replication.log.store import ENVIRONMENT
from holdfast.storage import ObjectStore
from holdfast.storage.encryption.key_source import ENVIRONMENT as KEY
from tests.support.jobs.command import RunCommand
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.usefixtures("log_address")


def test_the_store_is_named_by_option_environment_or_file(
    holdfast: RunCommand, two: Replicas, log_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    done = holdfast("replica", "status")
    assert (done.code, "say where the coordination store is: --store, HOLDFAST_STORE, or 'store'" in done.err) == (
        2,
        True,
    )
    assert "shop" in holdfast("replica", "status", "--store", log_address).out
    replicas = f"replicas: {{near: {two.folder / 'near'}, far: {two.folder / 'far'}}}"
    Path("archives.yaml").write_text(f"archives: {{sales: {{{replicas}, store: '{log_address}'}}}}")
    assert "shop" in holdfast("replica", "status").out
    assert "shop" in holdfast("replica", "status", "--archive", "sales").out
    assert holdfast("replica", "sync", "--all", "--archive", "sales").code == 0
    monkeypatch.setenv(ENVIRONMENT, f"sqlite:///{two.folder}/another.db")
    assert "there is no coordination store at" in holdfast("replica", "status").err


def test_archives_yaml_and_the_command_must_mean_the_same_place(
    holdfast: RunCommand, two: Replicas, log_address: str
) -> None:
    replicas = f"replicas: {{near: {two.folder / 'near'}, third: {two.folder / 'third'}}}"
    Path("archives.yaml").write_text(f"archives: {{sales: {{{replicas}, store: '{log_address}'}}}}")
    done = holdfast("replica", "add", "third", str(two.folder / "elsewhere"), "--archive", "sales")
    assert (done.code, "archives.yaml says that replica third of sales is at" in done.err) == (2, True)
    assert holdfast("replica", "add", "third", str(two.folder / "third"), "--archive", "sales").code == 0


def test_a_mistake_in_another_archive_is_in_no_replicas_way(
    holdfast: RunCommand, two: Replicas, log_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = str(two.folder / "third")
    sales = f"sales: {{replicas: {{near: {two.folder / 'near'}, far: {two.folder / 'far'}}}, store: '{log_address}'}}"
    Path("archives.yaml").write_text(f"archives: {{{sales}, bad: {{urll: there}}}}")
    assert holdfast("replica", "add", "third", third).code == 0
    Path("archives.yaml").write_text(f"archives: {{bad: {{urll: {two.folder / 'near'}, store: '{log_address}'}}}}")
    assert "unknown key 'urll'" in holdfast("replica", "status").err
    monkeypatch.delenv(ENVIRONMENT)
    assert "unknown key 'urll'" in holdfast("replica", "status").err
    assert "unknown key 'urll'" in holdfast("replica", "status", "--archive", "bad").err


def test_several_archives_in_one_store_are_told_apart(
    holdfast: RunCommand, two: Replicas, store: ObjectStore, tmp_path: Path
) -> None:
    assert holdfast("replica", "add", "near", store.url).code == 0
    done = holdfast("replica", "sync", "--all")
    assert (done.code, "say which by --archive" in done.err) == (2, True)
    assert holdfast("replica", "sync", "--all", "--archive", two.archive).code == 0
    done = holdfast("replica", "add", "far", str(tmp_path / "more"), "--archive", Archive.open(store).identity.id)
    assert done.code == 0
    assert holdfast("replica", "trim", "--archive", "nobody").code == 2


def test_the_key_of_an_encrypted_archive_is_found_in_archives_yaml(
    holdfast: RunCommand, tmp_path: Path, log_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    monkeypatch.setenv(KEY, f"file:{tmp_path / 'key'}")
    assert holdfast("init", str(tmp_path / "near"), "--name", "shop").code == 0
    monkeypatch.delenv(KEY)
    replicas = f"replicas: {{near: {tmp_path / 'near'}, far: {tmp_path / 'far'}}}"
    Path("archives.yaml").write_text(
        f"archives: {{shop: {{{replicas}, store: '{log_address}', encryption: {{key: 'file:{tmp_path / 'key'}'}}}}}}"
    )
    assert holdfast("replica", "add", "near", str(tmp_path / "near")).code == 0
    assert holdfast("replica", "add", "far", str(tmp_path / "far")).code == 0
    assert (tmp_path / "far" / "keys").is_dir()
    assert holdfast("replica", "sync", "--all").code == 0


def test_a_password_in_an_address_is_refused_and_not_shown(holdfast: RunCommand, two: Replicas) -> None:
    done = holdfast("replica", "status", "--store", "postgresql://me:geheim@db/log", "--json")
    assert (done.code, done.value["exit_code"]) == (2, 2)
    assert "leave the password out" in done.err
    assert "geheim" not in done.out + done.err
    done = holdfast("replica", "add", "off", "s3://me:geheim@bucket/off")
    assert (done.code, "geheim" in done.out + done.err) == (2, False)


def test_a_store_that_cannot_be_reached_fails_with_a_sentence(holdfast: RunCommand, tmp_path: Path) -> None:
    nowhere = f"sqlite:///{tmp_path}/no/such/log.db"
    done = holdfast("replica", "status", "--store", nowhere)
    assert (done.code, "there is no coordination store at" in done.err) == (2, True)
    done = holdfast("replica", "add", "near", str(tmp_path / "near"), "--store", nowhere)
    assert (done.code, "cannot be used" in done.err) == (1, True)
