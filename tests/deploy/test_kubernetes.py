"""The manifests of deploy/kubernetes/, as far as they can be judged without Kubernetes: schemas, names, no secrets.

tests/sparkjobs/cluster/test_kubernetes.py runs a backup by the configuration of Spark that is in them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from holdfast.config.archives_model import Config
from sparkjobs.executors.kubernetes import POD_IP_VARIABLE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PAGE = ROOT / "docs" / "kubernetes.md"
MANIFESTS = ("configuration.yaml", "network.yaml", "rbac.yaml")
VALUES = ("values.yaml", "values-kubernetes-executor.yaml")
KUBERNETES = ("1.31", "1.37")
"""The oldest and the newest that the manifests are for."""

EXECUTORS = "airflow-executors"

KNOWN = {
    "airflowHome", "airflowVersion", "allowPodLaunching", "createUserJob.defaultUser.enabled",
    "dags.gitSync.enabled", "dags.persistence.enabled", "data.metadataSecretName", "defaultAirflowRepository",
    "defaultAirflowTag", "env", "apiSecretKeySecretName", "executor", "extraEnv", "fernetKeySecretName", "gid",
    "jwtSecretName", "networkPolicies.enabled", "postgresql.enabled", "scheduler.replicas", "scheduler.resources",
    "scheduler.serviceAccount.create", "scheduler.serviceAccount.name", "secret", "statsd.enabled", "uid",
    "volumeMounts", "volumes", "workers.resources", "workers.serviceAccount.create", "workers.serviceAccount.name",
}  # fmt: skip
"""Keys of the official chart that were looked up; docs/kubernetes.md says where."""

LEAVES = {"env", "secret", "volumes", "volumeMounts", "scheduler.resources", "workers.resources"}


def documents(*names: str) -> list[dict[str, Any]]:
    return [document for name in names for document in yaml.safe_load_all((FOLDER / name).read_text())]


def values(name: str) -> dict[str, Any]:
    (document,) = documents(name)
    return document


def data(name: str) -> dict[str, str]:
    found = [each["data"] for each in documents("configuration.yaml") if each["metadata"]["name"] == name]
    return dict(found[0])


def keys(document: dict[str, Any], before: str = "") -> set[str]:
    """The paths of all values in a document."""
    found: set[str] = set()
    for name, value in document.items():
        path = before + name
        found |= keys(value, f"{path}.") if isinstance(value, dict) and path not in LEAVES else {path}
    return found


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_follow_the_schemas_of_kubernetes(name: str, version: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, version, strict=True)
        assert document["kind"] == "Namespace" or document["metadata"]["namespace"] in ("airflow", EXECUTORS)


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_template_of_executors_follows_it_too(version: str) -> None:
    template = yaml.safe_load(data("holdfast-spark")["executor-pod.yaml"])
    template["spec"]["containers"][0]["image"] = "holdfast"  # which Spark adds
    kubernetes_validate.validate(template, version, strict=True)


@pytest.mark.parametrize("name", VALUES)
def test_values_have_keys_of_the_chart_alone(name: str) -> None:
    assert keys(values(name)) - KNOWN == set()


def test_volumes_and_variables_of_the_values_are_those_of_a_pod() -> None:
    given = values("values.yaml")
    container = {
        "name": "airflow",
        "image": f"{given['defaultAirflowRepository']}:{given['defaultAirflowTag']}",
        "env": given["env"] + yaml.safe_load(given["extraEnv"]),
        "volumeMounts": given["volumeMounts"],
        "resources": given["scheduler"]["resources"],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scheduler"}}
    spec = {"containers": [container], "volumes": given["volumes"]}
    kubernetes_validate.validate({**pod, "spec": spec}, KUBERNETES[-1], strict=True)
    assert {each["name"] for each in given["volumeMounts"]} == {each["name"] for each in given["volumes"]}
    assert {POD_IP_VARIABLE} == {each["name"] for each in yaml.safe_load(given["extraEnv"])}


def test_no_secret_is_in_a_file_and_each_is_made_on_the_page() -> None:
    given = values("values.yaml")
    assert not any(document["kind"] == "Secret" for document in documents(*MANIFESTS))
    plain = {each["name"] for each in given["env"]}
    assert not [name for name in plain if re.search(r"PASSWORD$|SECRET|TOKEN|ACCESS_KEY", name)]
    connection = json.loads(
        next(each["value"] for each in given["env"] if each["name"] == "AIRFLOW_CONN_SPARK_DEFAULT")
    )
    assert connection.keys() == {"conn_type", "host", "port", "extra"}
    named = {each["secretName"] for each in given["secret"]}
    named |= {each["secret"]["secretName"] for each in given["volumes"] if "secret" in each}
    named |= {given["data"]["metadataSecretName"], *(given[key] for key in given if key.endswith("SecretName"))}
    made = re.findall(r"kubectl -n ([\w-]+) create secret generic ([\w-]+)", PAGE.read_text())
    assert {name for namespace, name in made if namespace == "airflow"} == named
    assert {name for namespace, name in made if namespace == EXECUTORS} == {"holdfast-spark"}


def test_accounts_config_maps_and_labels_that_are_named_are_there() -> None:
    given = values("values.yaml")
    maps = {each["configMap"]["name"] for each in given["volumes"] if "configMap" in each}
    there = {(each["kind"], each["metadata"]["name"]) for each in documents(*MANIFESTS)}
    assert {("ConfigMap", name) for name in maps} <= there
    template = yaml.safe_load(data("holdfast-spark")["executor-pod.yaml"])["spec"]
    accounts = {given["scheduler"]["serviceAccount"]["name"], template["serviceAccountName"]}
    assert {("ServiceAccount", name) for name in accounts} <= there


def test_a_driver_may_make_pods_beside_sparks_secret_alone_and_nothing_else_anywhere() -> None:
    """A pod mounts any Secret of its namespace: where pods can be made, there must be none that matters."""
    roles = [each for each in documents("rbac.yaml") if each["kind"] in ("Role", "ClusterRole")]
    assert [(each["kind"], each["metadata"]["namespace"]) for each in roles] == [("Role", EXECUTORS)]
    assert [rule["resources"] for rule in roles[0]["rules"]] == [["pods"]]
    bindings = [each for each in documents("rbac.yaml") if each["kind"].endswith("Binding")]
    assert [(each["kind"], each["metadata"]["namespace"]) for each in bindings] == [("RoleBinding", EXECUTORS)]
    (namespace,) = [each for each in documents("rbac.yaml") if each["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    (quota,) = [each["spec"]["hard"] for each in documents("rbac.yaml") if each["kind"] == "ResourceQuota"]
    assert (quota["persistentvolumeclaims"], quota["services"]) == ("0", "0")
    lines = data("holdfast-spark")["spark-defaults.conf"].splitlines()
    said = dict(line.split() for line in lines if not line.startswith("#"))
    assert said["spark.kubernetes.namespace"] == namespace["metadata"]["name"] == EXECUTORS
    assert [name for name in said if ".secrets." in name] == ["spark.kubernetes.executor.secrets.holdfast-spark"]


def test_executors_pods_are_such_as_their_namespace_admits() -> None:
    """What the level `restricted` of the Pod Security Standards asks for."""
    spec = yaml.safe_load(data("holdfast-spark")["executor-pod.yaml"])["spec"]
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["seccompProfile"]["type"]) == (
        True,
        "RuntimeDefault",
    )
    (container,) = spec["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} == {"emptyDir"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_pods_of_airflow_remember_what_was_seen_of_archives() -> None:
    given = values("values.yaml")
    (folder,) = [each["value"] for each in given["env"] if each["name"] == "HOLDFAST_STATE"]
    (mount,) = [each for each in given["volumeMounts"] if each["mountPath"] == folder]
    (volume,) = [each for each in given["volumes"] if each["name"] == mount["name"]]
    (claim,) = [each for each in documents("configuration.yaml") if each["kind"] == "PersistentVolumeClaim"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert not mount.get("readOnly")


def test_spark_is_told_what_the_pods_have() -> None:
    lines = data("holdfast-spark")["spark-defaults.conf"].splitlines()
    said = dict(line.split() for line in lines if not line.startswith("#"))
    given = values("values.yaml")
    mounts = {each["name"]: each["mountPath"] for each in given["volumeMounts"]}
    variables = {each["name"]: each["value"] for each in given["env"]}
    assert said["spark.kubernetes.container.image"] == "registry.example/holdfast:0.1.0"
    assert said["spark.kubernetes.executor.podTemplateFile"] == f"{variables['SPARK_CONF_DIR']}/executor-pod.yaml"
    assert mounts["holdfast-spark-settings"] == variables["SPARK_CONF_DIR"]
    secret = Path(said["spark.authenticate.secret.file"])
    assert str(secret.parent) == mounts["holdfast-spark"] == said["spark.kubernetes.executor.secrets.holdfast-spark"]
    assert not [name for name in said if name.startswith(("spark.executorEnv.", "spark.kubernetes.driverEnv."))]
    allowed = [port for policy in documents("network.yaml") for port in re.findall(r"'port': (35\d+)", str(policy))]
    used = {said[f"spark.{name}"] for name in ("driver.port", "driver.blockManager.port", "blockManager.port")}
    assert used <= {*allowed, "35100"}


def test_the_archives_file_is_one_that_holdfast_reads() -> None:
    config = Config.model_validate(yaml.safe_load(data("holdfast-archives")["archives.yaml"]))
    assert config.archives["shop"].encryption is not None
    key_file = Path("/run/holdfast-key/key")
    mounts = {each["name"]: each["mountPath"] for each in values("values.yaml")["volumeMounts"]}
    assert mounts["holdfast-key"] == str(key_file.parent)


@pytest.mark.parametrize("name", [*MANIFESTS, *VALUES])
def test_what_was_not_tried_says_so(name: str) -> None:
    text = (FOLDER / name).read_text().partition("\n---\n")[0]
    assert re.search(r"[Nn]ot tried", text) or name in ("configuration.yaml", "network.yaml")
    assert "not tried" in PAGE.read_text().lower()
