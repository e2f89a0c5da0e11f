"""Kubernetes as Spark's cluster: no secret gets into the specification of a pod, and the driver knows its own.

tests/sparkjobs/cluster/test_kubernetes.py looks at the pods that Spark really asks for.
"""

from __future__ import annotations

import pytest
from pyspark import SparkConf

from holdfast.common.errors import UsageError
from sparkjobs.executors import kubernetes, spark
from sparkjobs.executors.kubernetes import complete, is_kubernetes
from sparkjobs.executors.spark import SparkExecutor

FILE = {"spark.authenticate.secret.file": "/run/spark-secret/secret"}


def conf(settings: dict[str, str]) -> SparkConf:
    made = SparkConf(loadDefaults=False)
    return made.setAll([*settings.items()])


@pytest.mark.parametrize(
    ("master", "is_so"),
    [("k8s://https://kubernetes.default.svc", True), ("yarn", False), ("local[2]", False), (None, False)],
)
def test_kubernetes_is_known_by_its_master(master: str | None, is_so: bool) -> None:
    assert is_kubernetes(master) == is_so


def test_a_driver_in_a_pod_tells_spark_which_one() -> None:
    made = conf(FILE)
    complete(made, {"HOLDFAST_POD_NAME": "backup-x1", "HOLDFAST_POD_IP": "10.1.2.3"})
    assert made.get("spark.kubernetes.driver.pod.name") == "backup-x1"
    assert made.get("spark.driver.host") == "10.1.2.3"
    assert made.get("spark.kubernetes.executor.disableConfigMap") == "true"


def test_what_is_configured_stays_and_outside_of_a_pod_nothing_is_made_up() -> None:
    made = conf({**FILE, "spark.driver.host": "driver.airflow.svc"})
    complete(made, {"HOLDFAST_POD_IP": "10.1.2.3", "HOLDFAST_POD_NAME": ""})
    assert made.get("spark.driver.host") == "driver.airflow.svc"
    assert made.get("spark.kubernetes.driver.pod.name") is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.authenticate.secret": "hunter2"},
        {**FILE, "spark.authenticate.secret": "hunter2"},
        {"spark.authenticate.secret.driver.file": "/run/secret"},
    ],
)
def test_a_secret_that_would_be_in_the_environment_of_pods_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(
        UsageError, match=r"readable in its executors' pods: .*spark\.authenticate\.secret\.file"
    ) as error:
        complete(conf(settings), {})
    assert "hunter2" not in str(error.value)


def test_a_secret_file_for_each_side_does() -> None:
    complete(conf({f"spark.authenticate.secret.{side}.file": "/run/secret" for side in ("driver", "executor")}), {})


@pytest.mark.parametrize(
    "name",
    [
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "spark.executorEnv.AZURE_STORAGE_CONNECTION_STRING",
        "spark.executorEnv.HOLDFAST_KEY",
        "spark.kubernetes.driverEnv.PGPASSWORD",
    ],
)
def test_credentials_in_the_environment_of_pods_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} would be readable in Spark's pods") as error:
        complete(conf({**FILE, name: "hunter2"}), {})
    assert "hunter2" not in str(error.value)


def test_other_variables_of_pods_are_left_alone() -> None:
    complete(
        conf(
            {**FILE, "spark.executorEnv.TZ": "UTC", "spark.executorEnv.AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token"}
        ),
        {},
    )


def test_an_executor_for_kubernetes_is_checked_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    class NeverStarted:
        @staticmethod
        def _ensure_initialized() -> None:
            pass

        def __init__(self, conf: object) -> None:
            raise AssertionError("Spark was started")

    monkeypatch.setattr(spark, "SparkContext", NeverStarted)
    monkeypatch.setattr(spark, "SparkConf", lambda: conf({"spark.master": "k8s://https://kubernetes.default.svc"}))
    with pytest.raises(UsageError, match=r"on Kubernetes, Spark's secret"):
        _ = SparkExecutor("test").context
    assert kubernetes.POD_NAME_VARIABLE == "HOLDFAST_POD_NAME"
