"""The request for a check of a Spark cluster: the archive and its sources say all."""

from __future__ import annotations

from typing import ClassVar

from holdfast.operations.requests.base import Request


class ClusterCheckRequest(Request):
    """A check of the cluster that jobs run on."""

    operation: ClassVar[str] = "cluster_check"
