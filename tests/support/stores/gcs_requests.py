"""Requests of each kind to Google Cloud Storage, and answers as it gives them."""

from __future__ import annotations

import json
from collections.abc import Callable

from holdfast.storage.contract.parts import PART_BYTES
from holdfast.storage.gcs.store import GcsStore
from tests.support.stores.failing_server import Answer, FailingServer

PATIENCE = 2
"""Tries of a read, and of a write that is one too many."""


def told(status: int, reason: str) -> Answer:
    """An error as Google's JSON API tells it."""
    body = {"error": {"code": status, "message": f"{reason} was told", "errors": [{"reason": reason}]}}
    return Answer(status, json.dumps(body), {"Content-Type": "application/json"})


NO_BUCKET = Answer(404, '{"error": {"code": 404, "message": "The specified bucket does not exist."}}')


def write_large(store: GcsStore) -> None:
    with store.open_write("a") as file:
        file.write(b"")


PLAIN_WRITES: list[Callable[[GcsStore], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.delete("a"),
]


WRITES = [
    *PLAIN_WRITES,
    lambda store: store.create("a", b"x"),
    lambda store: store.replace("a", b"x", "1"),
    write_large,
]


READS: list[Callable[[GcsStore], object]] = [
    lambda store: store.get("a"),
    lambda store: store.head("a"),
    lambda store: store.list(""),
    lambda store: store.open_read("a"),
]


SESSION = "sesame"


def uploading(server: FailingServer, at: str) -> None:
    """Let the server take the first part of a large object."""
    server.by_method = {
        "POST": Answer(200, headers={"Location": f"{at}/upload?upload_id={SESSION}"}),
        "PUT": Answer(308, headers={"Range": f"bytes=0-{PART_BYTES - 1}"}),
    }
