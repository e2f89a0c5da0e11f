"""The data keys of an archive, wrapped by a key that is kept elsewhere: `keys/<n>.json`, each written once.

The newest of these documents counts; its last key seals what is written. Who lacks the wrapping key cannot open the
archive; whoever has lost both wrapping key and its copies has lost the archive.
"""

from __future__ import annotations

import base64
import os
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import DamagedError, RefusedError, UsageError
from holdfast.storage.key_source import find_key
from holdfast.storage.sealing import KEY_BYTES, KEY_ID_BYTES, DataKey
from locking.store import ObjectExists

if TYPE_CHECKING:
    from holdfast.storage.base import ObjectStore
    from holdfast.storage.key_source import WrappingKey

KEYS = "keys/"


class WrappedKey(BaseModel):
    """A data key that its wrapping key alone opens.

    :param id: what sealed objects name it by, in hexadecimal.
    :param wrapped: in base64.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=rf"^[0-9a-f]{{{KEY_ID_BYTES * 2}}}$")
    created: AwareDatetime
    wrapped: str


class RingDocument(BaseModel):
    """What a ring of keys is stored as; nothing in it is secret.

    :param ring: an id of its own; copies of an archive may share a ring.
    :param number: of this document; each is written once.
    :param wrapped_by: fingerprint of the wrapping key; empty where a service wraps.
    :param keys: oldest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    ring: str
    number: int = Field(ge=1)
    created: AwareDatetime
    wrapped_by: str
    keys: tuple[WrappedKey, ...] = Field(min_length=1)


@dataclass(frozen=True)
class KeyRing:
    """The opened data keys of an archive."""

    document: RingDocument
    keys: dict[bytes, DataKey]

    @property
    def newest(self) -> DataKey:
        """What is written now is sealed with it."""
        return self.keys[bytes.fromhex(self.document.keys[-1].id)]


def read_document(store: ObjectStore) -> RingDocument | None:
    """Return the ring as it is stored; None for an archive that is not encrypted.

    :raises DamagedError: it is not what was written.
    """
    found = store.list(KEYS).objects
    if not found:
        return None
    key = found[-1].key
    try:
        return RingDocument.model_validate_json(store.get(key))
    except ValidationError:
        raise DamagedError(
            f"{key} in {store.url} is damaged, and without it nothing of the archive can be read: put it back from a "
            "copy of the archive, or from what 'holdfast key show' printed"
        ) from None


@lru_cache(maxsize=16)
def open_ring(document: RingDocument, address: str, place: str) -> KeyRing:
    """Unwrap the keys of a ring; asks for the wrapping key once in a process.

    :param address: of the wrapping key.
    :param place: the archive's URL, for the message.
    :raises UsageError: there is no such key, or it is another.
    """
    key = find_key(address)
    if document.wrapped_by and document.wrapped_by != key.fingerprint:
        found = f"has the fingerprint {key.fingerprint}" if key.fingerprint else "is that of a service"
        raise UsageError(
            f"the key at {key.address} {found}, but {place} is opened by the one with {document.wrapped_by}"
        )
    keys = {}
    for each in document.keys:
        secret = key.unwrap(base64.b64decode(each.wrapped), _purpose(document.ring, each.id))
        if len(secret) != KEY_BYTES:
            raise UsageError(f"the key at {key.address} is not the one that opens {place}")
        keys[bytes.fromhex(each.id)] = DataKey(bytes.fromhex(each.id), secret)
    return KeyRing(document, keys)


def create_ring(store: ObjectStore, key: WrappingKey) -> RingDocument:
    """Make the first keys of a place that becomes an encrypted archive.

    :raises RefusedError: it has keys.
    """
    return _write(store, key, ring=str(uuid.uuid4()), number=1, known=(), secrets={})


def renew_ring(store: ObjectStore, ring: KeyRing, key: WrappingKey) -> RingDocument:
    """Add a data key, which seals all that is written from now on, and wrap all of them; remove older documents.

    What was sealed before stays readable: its data key stays.

    :param key: the wrapping key from now on; may be the present one.
    :raises RefusedError: somebody else has just done so, or an older document is still there.
    """
    before = ring.document
    secrets = {each.hex(): data_key.secret for each, data_key in ring.keys.items()}
    document = _write(store, key, ring=before.ring, number=before.number + 1, known=before.keys, secrets=secrets)
    older = [found.key for found in store.list(KEYS).objects if found.key < _name(document.number)]
    for left, error in store.delete_many(older).items():
        raise RefusedError(
            f"the new keys are in force, but the old key still opens {left}, which could not be removed: {error}"
        )
    return document


def _write(
    store: ObjectStore,
    key: WrappingKey,
    *,
    ring: str,
    number: int,
    known: tuple[WrappedKey, ...],
    secrets: dict[str, bytes],
) -> RingDocument:
    now = store.list(KEYS).now
    new = os.urandom(KEY_ID_BYTES).hex()
    while new in secrets:
        new = os.urandom(KEY_ID_BYTES).hex()
    created = {**{each.id: each.created for each in known}, new: now}
    wrapped = tuple(
        WrappedKey(
            id=each,
            created=created[each],
            wrapped=base64.b64encode(key.wrap(secret, _purpose(ring, each))).decode(),
        )
        for each, secret in {**secrets, new: os.urandom(KEY_BYTES)}.items()
    )
    document = RingDocument(ring=ring, number=number, created=now, wrapped_by=key.fingerprint, keys=wrapped)
    store_document(store, document)
    return document


def store_document(store: ObjectStore, document: RingDocument) -> None:
    """Write a ring where there is none of its number.

    :raises RefusedError: there is.
    """
    try:
        store.create(_name(document.number), document.model_dump_json(indent=2).encode() + b"\n")
    except ObjectExists:
        raise RefusedError(
            f"somebody else has just made {_name(document.number)} in {store.url}: see 'holdfast key show'"
        ) from None


def _name(number: int) -> str:
    return f"{KEYS}{number:08d}.json"


def _purpose(ring: str, key: str) -> str:
    """Return what a data key is wrapped for."""
    return f"holdfast data key {key} of {ring}"
