"""Records of an archive's drills."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import RunRecord, last_records

if TYPE_CHECKING:
    from holdfast.storage import ObjectInfo, ObjectStore

PREFIX = "drill-"
"""What the names of their records begin with, before the source's."""

_READERS = 8


def drills_of(store: ObjectStore, source: str | None = None, *, most: int = 20) -> list[dict[str, Any]]:
    """Return the newest drills, the newest one last.

    Each has `run`, `ended` (by the store's clock), `state` ("running" also where it was killed), `error` ("" where it
    went well) and what it has found: `source`, `at`, `equal`, `seconds`, `age_s`, `assertions` and more.

    :param source: only those of this one.
    """
    newest = _newest(store, source)[-most:]
    with ThreadPoolExecutor(_READERS) as pool:
        bodies = pool.map(store.get, [found.key for found in newest])
        return [_described(found, body) for found, body in zip(newest, bodies, strict=True)]


def last_good_drill(store: ObjectStore, source: str, *, most: int = 20) -> dict[str, Any] | None:
    """Return the newest drill of a source that went well, as `drills_of` does; None where none of the newest did.

    Requests: one listing, and one for each drill from the newest one back to it.
    """
    for found in reversed(_newest(store, source)[-most:]):
        drill = _described(found, store.get(found.key))
        if drill["state"] == "succeeded":
            return drill
    return None


def _newest(store: ObjectStore, source: str | None) -> list[ObjectInfo]:
    return last_records(store, f"{PREFIX}{f'{source}.' if source else ''}")


def _described(found: ObjectInfo, body: bytes) -> dict[str, Any]:
    record = RunRecord.from_bytes(body, found.key)
    return {
        "run": record.run,
        "ended": iso(found.modified),
        "state": record.state,
        "error": record.error.message if record.error else "",
        **(record.result or {}),
    }
