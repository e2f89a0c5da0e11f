"""A replica at a server that takes connections and answers nothing, as one does whose process is stopped."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.replication.log import consistency_check
from tests.support.replicas.replicated import Replicas

HUNG = "s3://replicas/off"

LIMIT_S = 0.5
"""What all replicas together are given to answer."""

PATIENCE_S = 10.0
"""What takes longer has waited for the place that hangs: its requests are tried four times, half a minute each."""


@contextmanager
def hanging(replicas: Replicas, name: str) -> Iterator[Replicas]:
    """Let a replica be at such a server, whose address the environment names."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as server:
        patch.setattr(consistency_check, "LIMIT_S", LIMIT_S, raising=False)
        server.bind(("127.0.0.1", 0))
        server.listen(100)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        for variable, value in (("REGION", "us-east-1"), ("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret")):
            patch.setenv(f"AWS_{variable}", value)
        replicas.change(name, url=HUNG)
        yield replicas
