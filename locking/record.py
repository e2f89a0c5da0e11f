"""Contents of a lock's objects, as versioned JSON.

Others may write into a store, so nothing is taken for a record that is not one. Fields that a later release adds are
passed over; those that an earlier one did not write have their defaults.
"""

# The annotations are read at run time.
# ruff: noqa: TC001

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from locking.errors import UnreadableRecord
from locking.names import Mode
from locking.owner import Owner
from locking.terms import Terms

VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecord:
    """Content of an intent and of its target: who holds what, since when, on which terms.

    :param since: the store's clock, when the transaction began
    """

    version: int = VERSION
    txn: str
    mode: Mode
    resource: str
    owner: Owner
    purpose: str
    since: datetime
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMarker:
    """Content of ``DEAD.<txn>``: who ended it, why, and on which terms it had been."""

    version: int = VERSION
    txn: str
    reason: str
    terms: Terms
    by: Owner = field(default_factory=Owner)


class InvalidDocument(ValueError):  # noqa: N818 - named after the situation, like its siblings
    """Text that is no document of a class.

    :param fields: those that are missing or of another type; none where it is no JSON object
    """

    def __init__(self, fields: tuple[str, ...] = ()) -> None:
        super().__init__(", ".join(fields))
        self.fields = fields


def encode_record(record: LockRecord) -> bytes:
    return _encode(record)


def decode_record(body: bytes, *, resource: str, mode: Mode, txn: str) -> LockRecord:
    """Return the record in ``body``.

    :raises UnreadableRecord: damaged, of a newer version, or not the record its name promises
    """
    record = _decode(LockRecord, body)
    if (record.resource, record.mode, record.txn) != (resource, mode, txn):
        raise UnreadableRecord("the record belongs to another lock")
    return record


def encode_marker(marker: DeadMarker) -> bytes:
    return _encode(marker)


def decode_marker(body: bytes) -> DeadMarker:
    """Return the marker in ``body``; raises :class:`UnreadableRecord`."""
    return _decode(DeadMarker, body)


def parse_document(text: str) -> dict[str, object]:
    """Return the JSON object in ``text``; raises :class:`InvalidDocument`."""
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument from error
    if not isinstance(document, dict):
        raise InvalidDocument
    return document


def read_document(kind: type[T], document: dict[str, object]) -> T:
    """Return a dataclass with a document's values, strictly typed.

    :raises InvalidDocument: it has not the fields of ``kind``
    """
    described: Any = kind
    values: dict[str, object] = {}
    wrong: list[str] = []
    for name, (read, is_optional) in _readers(described).items():
        try:
            if name in document or not is_optional:
                values[name] = read(document[name])
        except (LookupError, TypeError, ValueError, OverflowError):
            wrong.append(name)
    if wrong:
        raise InvalidDocument(tuple(sorted(wrong)))
    return kind(**values)


def _encode(value: LockRecord | DeadMarker) -> bytes:
    document = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    # An argument, a user's or a host's name may hold bytes that are no UTF-8, which Python keeps as surrogates.
    return document.encode(errors="replace")


def _plain(value: Any) -> dict[str, object]:
    kind: Any = type(value)
    types = _types(kind)
    return {field.name: _plain_field(types[field.name], getattr(value, field.name)) for field in fields(value)}


def _plain_field(kind: object, value: Any) -> object:
    if is_dataclass(value):
        return _plain(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return float(value) if kind is float else value


def _decode(kind: type[T], body: bytes) -> T:
    try:
        document = parse_document(body.decode())
        version = _exactly(int)(document.get("version"))
        if version > VERSION:
            raise UnreadableRecord(f"the record has version {version}; this Holdfast reads up to {VERSION}")
        return read_document(kind, document)
    except (ValueError, TypeError) as error:
        raise UnreadableRecord("the record is damaged or not ours") from error


# What follows reads one value each. It raises TypeError or ValueError where that is of another type.

_Reader = Callable[[Any], Any]


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _readers(kind: type) -> dict[str, tuple[_Reader, bool]]:
    """Return, for each field of a dataclass, what reads its value, and whether it may be missing."""
    return {
        field.name: (
            _reader(_types(kind)[field.name]),
            field.default is not MISSING or field.default_factory is not MISSING,
        )
        for field in fields(kind)
    }


def _reader(kind: Any) -> _Reader:
    if get_origin(kind) is UnionType:  # of one type and None
        inner = _reader(get_args(kind)[0])
        return lambda value: None if value is None else inner(value)
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind))
    if isinstance(kind, type) and is_dataclass(kind):
        return lambda value: read_document(kind, _exactly(dict)(value))
    return {float: _number, datetime: _time, str: _text}.get(kind) or _exactly(kind)


def _exactly(kind: type[T]) -> Callable[[object], T]:
    def read(value: object) -> T:
        if type(value) is not kind:  # True is an int, too
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value

    return read


def _one_of(words: tuple[str, ...]) -> _Reader:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"{value!r} is none of {words}")
        return value

    return read


def _text(value: object) -> str:
    text = _exactly(str)(value)
    text.encode()  # halves of surrogates, which JSON can write, are no text
    return text


def _number(value: object) -> float:
    return float(_exactly(int)(value)) if isinstance(value, int) else _exactly(float)(value)


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_exactly(str)(value))
    if time.tzinfo is None:
        raise ValueError("the time is in no zone")
    return time


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")
