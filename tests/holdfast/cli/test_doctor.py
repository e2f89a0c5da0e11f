"""`holdfast doctor` finds what is missing and says what to do."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from holdfast.archive.format import last_seen
from holdfast.cli import doctor
from holdfast.common.doctor_finding import DoctorFinding
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.dump import client_floors, programs
from holdfast.storage import ObjectStore, StoreDenied
from holdfast.storage.folder import FolderStore
from tests.support.jobs.command import RunCommand


def remedies(value: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {finding["what"]: finding["remedy"] for finding in value["findings"]}


def test_a_machine_with_everything_is_fine(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("doctor", store.url, "--json")
    assert (done.code, done.value["ok"]) == (0, True)
    checked = ("Python", "Java", "Spark", "last seen", "pg_dump", "pg_restore", "libpq", "archive")
    assert remedies(done.value) == dict.fromkeys(checked, "")
    shown = holdfast("doctor")
    assert shown.code == 0
    assert "ok   Java: 17" in shown.out or "ok   Java: 21" in shown.out


def test_a_folder_for_what_was_seen_that_cannot_be_written_is_found(
    holdfast: RunCommand,
    store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HOLDFAST_STATE", str(tmp_path / "file" / "state"))
    (tmp_path / "file").touch()
    done = holdfast("doctor", store.url, "--json")
    assert done.code == 0
    (found,) = [each for each in done.value["findings"] if each["what"] == "last seen"]
    assert found["found"].startswith(f"nothing is remembered: {tmp_path / 'file' / 'state'} cannot be written (Not a")
    assert (found["warning"], "set HOLDFAST_STATE to a folder that stays" in found["remedy"]) == (True, True)
    monkeypatch.setattr(last_seen, "_warned", [])
    caplog.clear()
    assert (holdfast("status", store.url).code, holdfast("points", store.url).code) == (0, 0)
    assert ["would not be noticed, since" in record.message for record in caplog.records] == [True]
    monkeypatch.setenv("HOLDFAST_STATE", str(tmp_path / "state"))
    done = holdfast("doctor", store.url, "--json")
    assert f"kept in {tmp_path / 'state'}" in [each["found"] for each in done.value["findings"]]


def test_a_missing_java_is_found(holdfast: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = holdfast("doctor", "--json")
    assert (done.code, done.value["ok"]) == (1, False)
    assert "install openjdk-17-jre-headless" in remedies(done.value)["Java"]
    assert "FAIL Java: none" in holdfast("doctor").out


@pytest.mark.parametrize(
    ("versions", "remedy"),
    [
        ({}, f"pip install pyspark=={doctor.PYSPARK}"),
        ({"pyspark": "4.1.0", "pyspark-client": "4.1.0"}, f"both must be {doctor.PYSPARK}"),
        ({"pyspark": doctor.PYSPARK, "pyspark-client": "4.1.0"}, "they install over each other's files"),
        ({"pyspark": doctor.PYSPARK}, ""),
    ],
)
def test_versions_of_spark_that_do_not_fit_are_found(
    holdfast: RunCommand, monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], remedy: str
) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = remedies(holdfast("doctor", "--json").value)["Spark"]
    assert remedy in found
    assert bool(found) == bool(remedy)


@pytest.mark.parametrize("url", ["nowhere", "s3://", "ftp://x"])
def test_an_archive_that_cannot_be_opened_is_found(holdfast: RunCommand, url: str) -> None:
    done = holdfast("doctor", url, "--json")
    assert done.code == 1
    assert remedies(done.value)["archive"]


def test_a_mistake_in_archives_yaml_is_found(holdfast: RunCommand) -> None:
    Path("archives.yaml").write_text("archives: {shop: {urrl: x}}")
    done = holdfast("doctor", "--json")
    assert (done.code, "unknown key 'urrl'" in remedies(done.value)["source archives.yaml"]) == (1, True)


def test_a_mistake_in_another_archive_keeps_no_source_from_being_tried(holdfast: RunCommand) -> None:
    good = "{url: x, sources: {gone: {url: 'postgresql://me@127.0.0.1:1/x'}}}"
    Path("archives.yaml").write_text(f"archives: {{bad: {{urrl: y}}, good: {good}}}")
    assert {"source archives.yaml", "source gone"} <= remedies(holdfast("doctor", "--json").value).keys()
    found = remedies(holdfast("doctor", "good", "--json").value)
    assert ("source archives.yaml" in found, "source gone" in found) == (False, True)


@pytest.mark.service
def test_every_source_of_the_archive_is_tried(
    holdfast: RunCommand,
    postgres: PostgresServer,
    address: Address,
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    Path("archives.yaml").write_text(
        f"""
archives:
  shop:
    url: {store.url}
    sources:
      good: {{url: "{address.url}"}}
      gone: {{url: "postgresql://me@127.0.0.1:1/x"}}
      airflow: {{connection: shop_postgres}}
"""
    )
    done = holdfast("doctor", "shop", "--json")
    found = remedies(done.value)
    assert done.code == 1
    assert found["source good"] == ""
    assert "Is the server running" in found["source gone"]
    assert "set AIRFLOW_CONN_SHOP_POSTGRES" in found["source airflow"]
    assert postgres.password not in done.out + done.err


def test_clients_with_known_vulnerabilities_are_found_with_what_to_install(
    holdfast: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "version_of", lambda program: client_floors.Release(17, 5))
    monkeypatch.setattr(client_floors, "libpq_release", lambda: client_floors.Release(16, 13))
    done = holdfast("doctor", "--json")
    clients = [each for each in done.value["findings"] if each["what"] in ("pg_dump", "pg_restore", "libpq")]
    assert [each["warning"] for each in clients] == [True, True, True]
    found = remedies(done.value)
    assert "pg_dump 17.5 is older than 17.11, which mends CVE-2025-8714, CVE-2025-8715" in found["pg_dump"]
    assert "install postgresql-client-17 17.11 or newer" in found["pg_restore"]
    assert "libpq 16.13 is older than 16.14, which mends CVE-2026-6477: pip install" in found["libpq"]


@pytest.mark.parametrize(
    ("arguments", "master", "told"),
    [
        (("doctor", "--cluster"), "spark://127.0.0.1:1", "--cluster needs an archive"),
        (("doctor", "shop", "--cluster"), "", "HOLDFAST_SPARK_MASTER is not set"),
        (("doctor", "shop", "--cluster"), "local[2]", "HOLDFAST_SPARK_MASTER is local[2]"),
    ],
)
def test_a_cluster_that_nothing_names_is_asked_for_in_one_sentence(
    holdfast: RunCommand, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], master: str, told: str
) -> None:
    monkeypatch.setenv("HOLDFAST_SPARK_MASTER", master)
    done = holdfast(*arguments)
    assert (done.code, done.out, told in done.err) == (2, "", True)


def test_findings_on_a_cluster_follow_those_on_this_machine(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, dict[str, Address]]] = []

    def check(master: str, asked_store: ObjectStore, sources: dict[str, Address]) -> list[DoctorFinding]:
        asked.append((master, asked_store.url, sources))
        return [DoctorFinding("worker a: disk", "none is free", "free some")]

    monkeypatch.setattr(doctor, "check_cluster", check)
    monkeypatch.setenv("HOLDFAST_SPARK_MASTER", "spark://master:7077")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", "postgres://me:s3cret@127.0.0.1:1/x")
    Path("archives.yaml").write_text(
        f"archives: {{shop: {{url: {store.url}, sources: {{a: {{connection: shop_db}}, b: {{connection: unknown}}}}}}}}"
    )
    done = holdfast("doctor", "shop", "--cluster", "--json")
    assert (done.code, remedies(done.value)["worker a: disk"]) == (1, "free some")
    assert asked == [("spark://master:7077", store.url, {"a": Address.parse("postgresql://me:s3cret@127.0.0.1:1/x")})]
    assert "checking the workers of spark://master:7077" in done.err
    assert "s3cret" not in done.out + done.err
    Path("archives.yaml").write_text("archives: {shop: {urrl: x}}")
    assert "unknown key 'urrl'" in remedies(holdfast("doctor", "shop", "--cluster", "--json").value)["cluster"]


def test_rules_of_the_store_that_do_harm_are_found(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = "rule 'old' moves all objects to GLACIER after 30 days"
    monkeypatch.setattr(FolderStore, "harmful_rules", lambda self: (rules,))
    done = holdfast("doctor", store.url, "--json")
    (found,) = [each for each in done.value["findings"] if each["what"] == "lifecycle rules"]
    assert (done.code, found["found"]) == (1, rules)

    def denied(self: FolderStore) -> tuple[str, ...]:
        raise StoreDenied("Could not read the lifecycle rules")

    monkeypatch.setattr(FolderStore, "harmful_rules", denied)
    done = holdfast("doctor", store.url, "--json")
    (found,) = [each for each in done.value["findings"] if each["what"] == "lifecycle rules"]
    assert (done.code, found["found"], found["warning"]) == (0, "not known", True)
