"""`holdfast backup`: what it asks the job for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.base import Request
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of the job, which is not run."""
    given: list[str] = []

    def run_job(archive: ArchiveContext, request: Request, **more: Any) -> dict[str, Any]:
        given[:] = request.to_arguments()
        return {"commit": 1, "kind": "full", "rows": 0, "tables": 0, "bytes": 0, "restorable_to": "now"}

    monkeypatch.setattr("holdfast.cli.backup.run_job", run_job)
    return given


SOURCE = ("--source", "postgresql://me@here/shop")
RETAINED = ("--max-retained", "10 GiB")


def test_a_source_may_be_spared(holdfast: RunCommand, store: ObjectStore, asked: list[str]) -> None:
    done = holdfast("backup", store.url, *SOURCE, "--connections", "2", "--bandwidth", "1.5 MB/s", "--json")
    assert done.code == 0
    assert asked[asked.index("--connections") :] == ["--connections", "2", "--bandwidth", "1.5 MB/s", *RETAINED]
    assert holdfast("backup", store.url, *SOURCE, "--json").code == 0
    assert "--connections" not in asked


def test_limits_of_the_configuration_hold_unless_others_are_given(
    holdfast: RunCommand, store: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "archives.yaml"
    file.write_text(
        f"archives: {{shop: {{url: {store.url}, sources: {{db: {{url: 'postgresql://me@here/shop', connections: 3, "
        "bandwidth: 20 kB}}}}"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
    assert holdfast("backup", "shop", "--source", "db", "--json").code == 0
    assert asked[asked.index("--connections") :] == ["--connections", "3", "--bandwidth", "20 kB", *RETAINED]
    assert holdfast("backup", "shop", "--source", "db", "--connections", "1", "--json").code == 0
    assert asked[asked.index("--connections") :] == ["--connections", "1", "--bandwidth", "20 kB", *RETAINED]


@pytest.mark.parametrize("limit", [("--connections", "0"), ("--bandwidth", "fast"), ("--bandwidth", "0 MB")])
def test_a_limit_that_is_none_is_a_mistake(
    holdfast: RunCommand, store: ObjectStore, asked: list[str], limit: tuple[str, str]
) -> None:
    done = holdfast("backup", store.url, *SOURCE, *limit, "--json")
    assert (done.code, asked) == (2, [])


def test_a_quorum_is_asked_for_as_the_configuration_says_or_the_command(
    holdfast: RunCommand, store: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed: list[dict[str, Any]] = []

    def confirm(store: ObjectStore, address: object, value: dict[str, Any], **more: Any) -> dict[str, Any]:
        confirmed.append(value)
        return {**value, "quorum": {"entry": 7, "size": 2, "replicas": ["far", "near"]}}

    monkeypatch.setattr("holdfast.cli.backup.confirm", confirm)
    file = tmp_path / "archives.yaml"
    file.write_text(
        f"archives: {{shop: {{replicas: {{near: {store.url}, far: {tmp_path}/far}}, quorum: 2, quorum_timeout: 2h, "
        "sources: {db: {url: 'postgresql://me@here/shop'}}}}"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
    done = holdfast("backup", "shop", "--source", "db", "--json")
    assert done.value["quorum"]["replicas"] == ["far", "near"]
    assert asked[asked.index("--quorum") :] == ["--quorum", "2", "--quorum-timeout", "2h"]
    holdfast("backup", "shop", "--source", "db", "--quorum-timeout", "30min", "--json")
    assert asked[asked.index("--quorum") :] == ["--quorum", "2", "--quorum-timeout", "30min"]
    assert len(confirmed) == 2
    assert "quorum" not in holdfast("backup", "shop", "--source", "db", "--quorum", "1", "--json").value
    assert "--quorum" not in asked
    assert len(confirmed) == 2


def test_a_source_that_archives_yaml_names_may_be_a_new_one(
    holdfast: RunCommand, store: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdfast("backup", store.url, *SOURCE)
    assert "--new-source" not in asked
    holdfast("backup", store.url, *SOURCE, "--new-source")
    assert "--new-source" in asked
    file = tmp_path / "archives.yaml"
    file.write_text(f"archives: {{shop: {{url: {store.url}, sources: {{db: {{url: 'postgresql://me@here/shop'}}}}}}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
    for source in ("db", SOURCE[1]):
        holdfast("backup", "shop", "--source", source)
        assert "--new-source" in asked
    holdfast("backup", "shop", "--source", "postgresql://me@here/shpo")
    assert "--new-source" not in asked
