"""Kubernetes as Spark's cluster: what a driver in a pod needs, and what must not get into the pods of its executors.

All that may list the pods of a namespace read their environment. Source: Spark manual, 'Spark Security', Kubernetes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkConf

POD_NAME_VARIABLE = "HOLDFAST_POD_NAME"
"""Name of the driver's pod: its executors belong to that pod, and go when it goes."""

POD_IP_VARIABLE = "HOLDFAST_POD_IP"
"""Address of the driver's pod: executors cannot resolve its name."""

_SECRET = "spark.authenticate.secret"  # noqa: S105 - a setting's name
_SECRET_FILE = f"{_SECRET}.file"
_SECRET_FILES = (f"{_SECRET}.driver.file", f"{_SECRET}.executor.file")

_ENVIRONMENT = ("spark.executorEnv.", "spark.kubernetes.driverEnv.")
_CREDENTIAL = re.compile(r"PASSWORD|SECRET|TOKEN|CREDENTIAL|PASSFILE|(?:^|_)KEY(?:$|_)|CONNECTION_STRING|AIRFLOW_CONN")
_NO_CREDENTIAL = {"AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"}
"""Names of paths of files, by which a pod has a role of its own."""


def is_kubernetes(master: str | None) -> bool:
    """Return whether Spark runs its executors as pods."""
    return master is not None and master.startswith("k8s://")


def complete(conf: SparkConf, environment: Mapping[str, str]) -> None:
    """Check a configuration for Kubernetes, and add what a driver in a pod knows of itself.

    :param environment: the driver's own.
    :raises UsageError: it would put a secret where others can read it.
    """
    _check_secret(conf)
    _check_environment(conf)
    for variable, setting in (
        (POD_NAME_VARIABLE, "spark.kubernetes.driver.pod.name"),
        (POD_IP_VARIABLE, "spark.driver.host"),
    ):
        if environment.get(variable):
            conf.setIfMissing(setting, environment[variable])
    # It would have the other files of the driver's configuration folder.
    conf.setIfMissing("spark.kubernetes.executor.disableConfigMap", "true")


def _check_secret(conf: SparkConf) -> None:
    """Check that Spark's secret comes from a file, which a Kubernetes Secret is mounted as.

    One that Spark makes itself, or is given as a setting, is in the environment of its executors' pods.
    """
    from_file = conf.contains(_SECRET_FILE) or all(conf.contains(each) for each in _SECRET_FILES)
    if conf.contains(_SECRET) or not from_file:
        raise UsageError(
            "on Kubernetes, Spark's secret would be readable in its executors' pods: mount a Secret into the driver's "
            "pod and, by spark.kubernetes.executor.secrets.*, into theirs, set spark.authenticate.secret.file to its "
            "file, and spark.authenticate.secret nowhere (docs/kubernetes.md)"
        )


def _check_environment(conf: SparkConf) -> None:
    for setting, _ in conf.getAll():
        name = next((setting.removeprefix(each) for each in _ENVIRONMENT if setting.startswith(each)), None)
        if name is not None and _CREDENTIAL.search(name) and name not in _NO_CREDENTIAL:
            raise UsageError(
                f"{setting} would be readable in Spark's pods: leave it out, tasks get credentials from their driver "
                "(docs/kubernetes.md)"
            )
