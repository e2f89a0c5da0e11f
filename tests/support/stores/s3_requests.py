"""What several tests of S3 ask of a store."""

from __future__ import annotations

from holdfast.storage.s3.store import S3Store

NAMES = ("HOLDFAST_S3_ADDRESSING", "HOLDFAST_S3_SSE", "HOLDFAST_S3_SSE_KMS_KEY_ID", "HOLDFAST_LISTING_ORDERED")

ATTEMPTS = 2
"""How often a store of the tests asks a server that fails."""


def write_bulk(store: S3Store, body: bytes) -> None:
    with store.open_write("bulk") as file:
        file.write(body)
