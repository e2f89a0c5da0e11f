"""The containers of docker-compose.yaml, as far as no engine is needed to look at them."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.config.archives_yaml import read_archives

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DIGEST = "sha256:[0-9a-f]{64}"
ONCE = {"begin", "buckets"}
"""Services that end when they are done."""

USERS = {"prometheus": "65534:65534", "grafana": "472:472"}
"""Users in images that are not ours: nobody, and Grafana's own."""


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_container_has_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    user = USERS.get(name, "holdfast")
    assert (service["user"], service["read_only"], service["cap_drop"]) == (user, True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert name in ONCE or "mem_limit" in service
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_no_password_is_in_the_file() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    named = re.findall(r"^\s*-?\s*\"?(\w*(?:PASSWORD|SECRET|KEY)\w*)\"?:\s*(.+)$", text, re.MULTILINE)
    assert len(named) >= 8
    assert {value for name, value in named if "${" not in value and not name.endswith("_FILE")} == set()


def test_what_the_file_asks_for_is_what_is_made_once() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    made = (ROOT / "scripts" / "cluster.sh").read_text()
    asked = set(re.findall(r"\$\{([A-Z0-9_]+):\?", text))
    assert asked == {name for name in asked if re.search(rf"\b{name}\b", made)}


def test_every_service_is_waited_for_in_order() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in ONCE else "service_healthy"
            assert (name, other, how["condition"]) == (name, other, wanted)
            assert other in ONCE or "healthcheck" in SERVICES[other]


def test_every_service_that_stays_says_whether_it_is_well() -> None:
    silent = {name for name, service in SERVICES.items() if "healthcheck" not in service}
    # Nobody waits for the load, and nothing depends on it.
    assert silent == {*ONCE, "load"}


def test_its_archive_has_no_mistake() -> None:
    archives = read_archives(ROOT / "cluster" / "archives.yaml")
    assert set(archives.archives["shop"].replicas or ()) == {"near", "far", "third"}


def test_without_an_engine_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    for name in ("bash", "env", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [ROOT / "scripts" / "cluster.sh", "up"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no container engine: install Docker" in done.stderr
    assert "'make demo' shows the same on one machine" in done.stderr


def test_passwords_are_made_once_for_this_user_alone(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "cluster").mkdir()
    shutil.copy(ROOT / "scripts" / "cluster.sh", tmp_path / "scripts")
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\nexit 0\n")
    engine.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):
        subprocess.run([tmp_path / "scripts" / "cluster.sh", "secrets"], env={"PATH": path}, check=True)
        secrets = tmp_path / "cluster" / ".env"
        kept = dict(line.split("=", 1) for line in secrets.read_text().splitlines())
        assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    assert len(set(kept.values())) == len(kept) >= 11
    assert all(len(value) >= 24 for value in kept.values())
    first = secrets.read_text()
    subprocess.run([tmp_path / "scripts" / "cluster.sh", "secrets"], env={"PATH": path}, check=True)
    assert secrets.read_text() == first


def test_a_password_that_an_earlier_release_had_not_is_added_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "cluster").mkdir()
    shutil.copy(ROOT / "scripts" / "cluster.sh", tmp_path / "scripts")
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\nexit 0\n")
    engine.chmod(0o755)
    secrets = tmp_path / "cluster" / ".env"
    secrets.write_text("SHOP_PASSWORD=kept\n")
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([tmp_path / "scripts" / "cluster.sh", "secrets"], env=environment, check=True)
    text = secrets.read_text()
    assert text.startswith("SHOP_PASSWORD=kept\n")
    assert (text.count("SHOP_PASSWORD="), text.count("GRAFANA_ADMIN_PASSWORD=")) == (1, 1)


def test_monitoring_is_a_profile_and_reads_what_is_in_its_folder() -> None:
    monitoring = {name for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]}
    assert monitoring == {"metrics", "prometheus", "grafana"}
    for name in monitoring:
        for source, *_ in (volume.split(":") for volume in SERVICES[name]["volumes"]):
            assert source in COMPOSE["volumes"] or (ROOT / source).exists()
        assert "healthcheck" in SERVICES[name]
    scraped = yaml.safe_load((ROOT / "monitoring" / "prometheus.yaml").read_text())["scrape_configs"][0]
    (target,) = scraped["static_configs"][0]["targets"]
    assert target == "metrics:9464"
    assert "0.0.0.0:9464" in SERVICES["metrics"]["command"]


def test_images_that_are_not_built_here_are_named_by_their_digest() -> None:
    built = {service["image"] for service in SERVICES.values() if "build" in service}
    others = {service["image"] for service in SERVICES.values()} - built - {"${AIRFLOW_IMAGE:-holdfast:local}"}
    assert len(others) == 2
    pinned = re.compile(rf"\$\{{[A-Z]+_IMAGE:-[a-z/]+:v?[\d.]+@{DIGEST}\}}")
    assert [image for image in others if not pinned.fullmatch(image)] == []


def test_the_base_of_images_is_one_digest_and_another_one_needs_its_own() -> None:
    (base,) = re.findall(r"^ARG BASE=(.+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(f"debian:12[^@]*@{DIGEST}", base)
    bases = [service["build"]["args"] for service in SERVICES.values() if "build" in service]
    assert bases == [{"BASE": f"${{BASE:-{base}}}", "BASE_IS_LOCAL": "${BASE_IS_LOCAL-}"}] * 4
    assert re.findall(r"^FROM (?!plain|base|build|holdfast)(\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}"]


@pytest.mark.parametrize(
    ("base", "local", "code"),
    [
        ("debian@sha256:" + 64 * "0", "", 0),
        ("debian:bookworm-slim", "", 1),
        ("debian:bookworm-slim", "no", 1),
        ("registry.example/debian:yes", "", 1),
        ("mine:here", "yes", 0),
    ],
)
def test_a_build_refuses_a_base_that_a_registry_could_exchange(base: str, local: str, code: int) -> None:
    (check,) = re.findall(r"^RUN (case .*?esac)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    environment = {"BASE": base, "BASE_IS_LOCAL": local}
    done = subprocess.run(["sh", "-c", check.replace("\\\n", "")], env=environment, capture_output=True, check=False)
    assert done.returncode == code


def test_what_reads_archives_remembers_what_it_has_seen_of_them() -> None:
    readers = {name for name, service in SERVICES.items() if "HOLDFAST_ARCHIVES" in service.get("environment", {})}
    assert readers >= {"begin", "metrics", "celery-worker", "airflow-api", "airflow-scheduler", "airflow-triggerer"}
    for name in readers:
        folder = SERVICES[name]["environment"]["HOLDFAST_STATE"]
        assert f"last-seen:{folder}" in SERVICES[name]["volumes"]
        assert f"chown holdfast /data /opt/airflow /opt/airflow/logs {folder} " in DOCKERFILE
    assert "last-seen" in COMPOSE["volumes"]


def test_celery_is_a_profile_whose_tasks_run_as_those_of_the_scheduler_do() -> None:
    celery = {name for name, service in SERVICES.items() if service.get("profiles") == ["celery"]}
    assert celery == {"broker", "celery-worker"}
    worker, scheduler = SERVICES["celery-worker"], SERVICES["airflow-scheduler"]
    assert worker["environment"] == {**scheduler["environment"], "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor"}
    assert worker["volumes"] == scheduler["volumes"]
    assert all("PASSWORD" not in word for name in celery for word in SERVICES[name].get("command", ()))
    pinned = (ROOT / "requirements" / "celery.txt").read_text()
    assert "apache-airflow-providers-celery==" in pinned
    shared = re.findall(r"^(?:apache-airflow-core|sqlalchemy|boto3)==.*", pinned, re.MULTILINE)
    assert shared
    assert all(line in (ROOT / "requirements" / "image.txt").read_text() for line in shared)


@pytest.mark.parametrize(
    ("profiles", "built", "executor"),
    [
        ("", "s3 begin", ""),
        ("monitoring,celery", "s3 begin broker celery-worker", "CeleryExecutor holdfast-celery:local"),
    ],
    ids=["local", "celery"],
)
def test_the_profile_celery_has_airflow_use_it(profiles: str, built: str, executor: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "cluster").mkdir()
    shutil.copy(ROOT / "scripts" / "cluster.sh", tmp_path / "scripts")
    called = tmp_path / "called"
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$*" "[$AIRFLOW_EXECUTOR $AIRFLOW_IMAGE]" >>{called}\n')
    (tmp_path / "curl").write_text("#!/bin/sh\n")
    for name in ("docker", "curl"):
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "COMPOSE_PROFILES": profiles}
    subprocess.run([tmp_path / "scripts" / "cluster.sh", "up"], env=environment, check=True, capture_output=True)
    lines = called.read_text().splitlines()
    assert any(line.endswith(f"build {built} [{executor or ' '}]") for line in lines)
    assert any("up --detach" in line and line.endswith(f"[{executor or ' '}]") for line in lines)
