"""Requests of each kind to Azure Blob Storage, and errors as it tells them."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.storage.azure.store import AzureStore
from tests.support.stores.failing_server import Answer


def told(status: int, code: str) -> Answer:
    """An error as Azure tells it: the code also as a header, since a HEAD has no body."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code} was told</Message></Error>'
    return Answer(status, body, {"Content-Type": "application/xml", "x-ms-error-code": code})


def write_large(store: AzureStore) -> None:
    with store.open_write("a") as file:
        file.write(b"")


PLAIN_WRITES: list[Callable[[AzureStore], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.delete("a"),
]


WRITES = [
    *PLAIN_WRITES,
    lambda store: store.create("a", b"x"),
    lambda store: store.replace("a", b"x", "0x1"),
    write_large,
]


READS: list[Callable[[AzureStore], object]] = [
    lambda store: store.get("a"),
    lambda store: store.head("a"),
    lambda store: store.list(""),
    lambda store: store.open_read("a"),
]
