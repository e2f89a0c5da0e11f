"""Jobs on Kubernetes in client mode, as far as no Kubernetes is needed: Spark asks an API server of the tests for pods,
and each runs by the image's own entry point, with the pod's variables alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from bench.support.versitygw import SECRET_KEY, S3Server
from holdfast.postgresql.connection.address import Address
from holdfast.storage.encryption.key_source import new_key
from tests.support.jobs.command import run
from tests.support.jobs.command_here import run_here
from tests.support.servers.kubernetes_api import Asked, inherited, kubernetes_api, variables_of

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "kubernetes"
ENTRY_POINT = ROOT / "cluster" / "entrypoint.sh"
URL = "s3://backups/shop"
SECRET = "the-secret-of-all-executors-0123456789"


def shipped(name: str) -> dict[str, str]:
    """Return the data of a ConfigMap in deploy/kubernetes/."""
    for document in yaml.safe_load_all((DEPLOY / "configuration.yaml").read_text()):
        if document["metadata"]["name"] == name:
            return dict(document["data"])
    raise LookupError(name)


def settings(folder: Path) -> dict[str, str]:
    """Write the shipped configuration of Spark, for this machine, and return the driver's variables."""
    (folder / "secret").write_text(SECRET)
    files = shipped("holdfast-spark")
    (folder / "executor-pod.yaml").write_text(files["executor-pod.yaml"])
    lines = dict(line.split() for line in files["spark-defaults.conf"].splitlines() if not line.startswith("#"))
    lines = {name: value for name, value in lines.items() if "port" not in name.lower()} | {
        "spark.authenticate.secret.file": str(folder / "secret"),
        "spark.kubernetes.executor.podTemplateFile": str(folder / "executor-pod.yaml"),
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    return {
        "SPARK_CONF_DIR": str(folder),
        "HOLDFAST_EXECUTOR": "spark",
        "HOLDFAST_POD_IP": "127.0.0.1",
    }


def runs_in(folder: Path) -> Callable[[dict[str, Any]], subprocess.Popen[bytes]]:
    """Return what runs pods as processes here, with a folder for what they would have in their own volumes."""

    def start(pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        own = folder / pod["metadata"]["name"]
        own.mkdir()
        variables = {**inherited(), **variables_of(pod), "SPARK_LOCAL_DIRS": str(own), "HOME": str(own)}
        with (own / "log").open("wb") as log:
            arguments = pod["spec"]["containers"][0]["args"]
            return subprocess.Popen([ENTRY_POINT, *arguments], cwd=own, env=variables, stdout=log, stderr=log)

    return start


def allowed() -> set[Asked]:
    """Return what rbac.yaml allows to a driver: all else is refused."""
    documents = yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())
    (role,) = [document for document in documents if document["kind"] == "Role"]
    return {
        (role["metadata"]["namespace"], verb, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


NOT_NEEDED = {
    ("airflow-executors", "deletecollection", resource)
    for resource in ("configmaps", "persistentvolumeclaims", "services")
}
"""What Spark asks for at the end, and goes on without."""


def test_a_backup_runs_in_pods_whose_specifications_hold_no_secret(
    s3: S3Server, create_database: Callable[..., Address], tmp_path: Path
) -> None:
    source = create_database("create table orders as select i as id from generate_series(1, 9999) i")
    (tmp_path / "key").write_text(new_key())
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "pods").mkdir()
    driver = {**s3.environment, "HOLDFAST_KEY": f"file:{tmp_path / 'key'}", **settings(tmp_path)}
    assert run_here("init", URL, more=driver).code == 0
    with kubernetes_api(runs_in(tmp_path / "pods"), allowed()) as (url, api):
        more = {**driver, "HOLDFAST_SPARK_MASTER": f"k8s://{url}"}
        done = run("backup", URL, "--source", source.url, "--json", address=source, more=more)
    logs = "".join(log.read_text() for log in (tmp_path / "pods").glob("*/log"))
    assert (done.code, done.value.get("rows")) == (0, 9999), done.err + logs
    assert len(api.specifications) >= 2
    asked = json.dumps(api.specifications)
    assert '"secretName": "holdfast-spark"' in asked
    for secret in (SECRET, SECRET_KEY, source.password, (tmp_path / "key").read_text().strip()):
        assert secret
        assert secret not in asked
        assert secret not in logs + done.out + done.err
    assert "_SPARK_AUTH_SECRET" not in asked
    assert set(api.refused) - NOT_NEEDED == set(), "rbac.yaml has too little"
    for pod in api.specifications:
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **pod}, "1.37", strict=True)
        assert pod["spec"]["serviceAccountName"] == "holdfast-executor"
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
