"""Spark's block service, asked by somebody who is none of Spark's: with nothing but a socket and what is published."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from sparkjobs.executors import spark
from sparkjobs.executors.spark import SparkExecutor
from tests.support.jobs.inline_jobs import session_arguments

pytestmark = pytest.mark.slow

_OPEN_BLOCKS, _CHUNK_REQUEST, _RPC_REQUEST = 0, 0, 3
_CHUNK_SUCCESS, _RPC_RESPONSE = 1, 4
SECRET = "the database's password"


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkExecutor]:
    """A Spark on this machine, as that of a job."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", session_arguments("local[1]"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    executor = SparkExecutor("test")
    yield executor
    executor.stop()


def words(*texts: str) -> bytes:
    return b"".join(struct.pack("!i", len(text)) + text.encode() for text in texts)


def exchange(connection: socket.socket, kind: int, body: bytes) -> tuple[int, bytes]:
    """Send a message and return the kind and the content of the answer. Source: Spark's network-common, `protocol`."""
    connection.sendall(struct.pack("!qb", 9 + len(body), kind) + body)
    with connection.makefile("rb") as answers:
        (size,) = struct.unpack("!q", answers.read(8))
        answer = answers.read(size - 8)
    return answer[0], answer[1:]


def stolen(executor: SparkExecutor) -> bytes:
    """Return the first block of the first broadcast, as any local user can ask for it; nothing where it is refused."""
    context = executor.context
    java: Any = context._jvm
    service = java.org.apache.spark.SparkEnv.get().blockManager().blockTransferService()
    kept = context._jsc.sc().broadcast(SECRET, java.scala.reflect.ClassTag.Any())
    block = f"broadcast_{kept.id()}_piece0"
    try:
        with socket.create_connection(("127.0.0.1", service.port()), timeout=20) as connection:
            body = bytes([_OPEN_BLOCKS]) + words("app", "driver") + struct.pack("!i", 1) + words(block)
            request = struct.pack("!qi", 1, len(body)) + body
            kind, answer = exchange(connection, _RPC_REQUEST, request)
            if kind != _RPC_RESPONSE:
                return b""
            stream = answer[-12:-4]  # a handle: the stream, and its number of chunks
            kind, answer = exchange(connection, _CHUNK_REQUEST, stream + struct.pack("!i", 0))
            return answer if kind == _CHUNK_SUCCESS else b""
    except (OSError, struct.error):  # it hung up
        return b""


def test_nobody_else_is_given_what_tasks_hold(executor: SparkExecutor) -> None:
    assert stolen(executor) == b""
    conf = executor.context.getConf()
    assert conf.get("spark.authenticate") == "true"
    assert not [name for name, _ in conf.getAll() if "secret" in name]


@pytest.mark.exhaustive
def test_without_a_secret_they_would_be(executor: SparkExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "GUARDED", {"spark.authenticate": "false", "spark.broadcast.compress": "false"})
    assert SECRET.encode() in stolen(executor)
