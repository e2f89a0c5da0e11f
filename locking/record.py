"""Contents of a lock's objects, as versioned JSON."""

# pydantic reads the annotations at run time.
# ruff: noqa: TC001

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from locking.errors import UnreadableRecord
from locking.names import Mode
from locking.owner import Owner
from locking.terms import Terms

VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecord:
    """Content of an intent and of its target.

    It says who holds what, since when, and on which terms.

    :param since: the store's clock, when the transaction began
    """

    version: int = VERSION
    txn: str
    mode: Mode
    resource: str
    owner: Owner
    purpose: str
    since: AwareDatetime
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMarker:
    """Content of ``DEAD.<txn>``.

    It says who ended the transaction, why, and on which terms it had been.
    """

    version: int = VERSION
    txn: str
    reason: str
    terms: Terms
    by: Owner = field(default_factory=Owner)


@dataclass(frozen=True, slots=True)
class _Envelope:
    version: int


# What reads and writes them takes long to make, and most processes that import this meet no record.
@cache
def _envelopes() -> TypeAdapter[_Envelope]:
    return TypeAdapter(_Envelope)


@cache
def _records() -> TypeAdapter[LockRecord]:
    return TypeAdapter(LockRecord)


@cache
def _markers() -> TypeAdapter[DeadMarker]:
    return TypeAdapter(DeadMarker)


def encode_record(record: LockRecord) -> bytes:
    return _encode(_records(), record)


def decode_record(body: bytes, *, resource: str, mode: Mode, txn: str) -> LockRecord:
    """Return the record in ``body``.

    :raises UnreadableRecord: damaged, of a newer version, or not the record its name promises
    """
    record = _decode(_records(), body)
    if (record.resource, record.mode, record.txn) != (resource, mode, txn):
        raise UnreadableRecord("the record belongs to another lock")
    return record


def encode_marker(marker: DeadMarker) -> bytes:
    return _encode(_markers(), marker)


def decode_marker(body: bytes) -> DeadMarker:
    """Return the marker in ``body``; raises :class:`UnreadableRecord`."""
    return _decode(_markers(), body)


def _encode(adapter: TypeAdapter[T], value: T) -> bytes:
    document = json.dumps(adapter.dump_python(value, mode="json"), ensure_ascii=False, separators=(",", ":"))
    # An argument, a user's or a host's name may hold bytes that are no UTF-8, which Python keeps as surrogates.
    return document.encode(errors="replace")


def _decode(adapter: TypeAdapter[T], body: bytes) -> T:
    try:
        version = _envelopes().validate_json(body).version
        if version > VERSION:
            raise UnreadableRecord(f"the record has version {version}; this Holdfast reads up to {VERSION}")
        return adapter.validate_json(body)
    except ValidationError as error:
        raise UnreadableRecord("the record is damaged or not ours") from error
