"""What is said of an archive, in the file and in the environment, and which of it counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.common.signing import ArchiveKeys, Signing
from holdfast.config.archives_model import ArchiveConfig
from holdfast.operations.archive_context import ArchiveContext

REPLICAS = ArchiveConfig.model_validate({"replicas": {"near": "/near", "far": "/far"}, "store": "sqlite:////a.db"})
SEALED = ArchiveConfig.model_validate({"url": "/archive", "encryption": {"key": "file:/file.key"}})


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORE", "REPLICAS", "KEY", "SIGNING_KEY", "SIGNERS"):
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)


def test_a_coordination_store_is_an_options_then_the_environments_then_the_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def address(said: str | None = None) -> str | None:
        return ArchiveContext.resolve(REPLICAS, coordination=said).coordination.url

    assert address() == "sqlite:////a.db"
    monkeypatch.setenv("HOLDFAST_STORE", "")
    assert address() == "sqlite:////a.db"
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:////b.db")
    assert (address(), address("sqlite:////c.db")) == ("sqlite:////b.db", "sqlite:////c.db")


def test_replicas_are_those_of_the_file_and_else_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_REPLICAS", '{"off": "/off"}')
    assert ArchiveContext.resolve(REPLICAS).coordination.replicas == {"near": "/near", "far": "/far"}
    assert ArchiveContext.resolve(SEALED).coordination.replicas == {"off": "/off"}
    monkeypatch.setenv("HOLDFAST_REPLICAS", "off")
    with pytest.raises(UsageError, match="HOLDFAST_REPLICAS is to be a JSON object"):
        ArchiveContext.resolve(SEALED)


def test_keys_are_those_that_were_said_then_the_files_then_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEY", "file:/environment.key")
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", "file:/signing.key")
    said = ArchiveKeys("file:/said.key", Signing("file:/said.signing"))
    assert ArchiveContext.resolve(SEALED, keys=said).keys == said
    assert ArchiveContext.resolve(SEALED).keys == ArchiveKeys("file:/file.key", Signing("file:/signing.key"))
    assert ArchiveContext.resolve(REPLICAS).keys.key == "file:/environment.key"


def test_nothing_of_it_changes_with_the_environment_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = replace(ArchiveContext.resolve(SEALED), url=str(tmp_path))
    monkeypatch.setenv("HOLDFAST_KEY", "file:/other.key")
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:////other.db")
    assert archive.open().key == "file:/file.key"
    assert archive.coordination.url is None


def test_the_replica_that_is_worked_on_is_the_first_unless_another_is_meant() -> None:
    archive = ArchiveContext.resolve(REPLICAS)
    assert (archive.url, ArchiveContext.resolve(REPLICAS, "/far").url) == ("/near", "/far")
    assert [replica.url for replica in archive.replicas] == ["/near", "/far"]
    alone = ArchiveContext.resolve(SEALED)
    assert alone.replicas == [alone]
