"""Data keys of an archive, sealed by a key that is kept elsewhere.

The documents with them are `keys/<n>.json`, each written once. The newest document counts; its last data key seals what
is written. The wrapping key wraps a root key, which seals the data keys together with everything else that the document
says: without it their order cannot be changed, nor an older document pass for a newer one. An archive is lost with the
last copy of its wrapping key.
"""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError, UsageError
from holdfast.storage.encryption.key_source import find_key, shown
from holdfast.storage.encryption.sealing import KEY_BYTES, KEY_ID_BYTES, DataKey
from locking.store import MOST_OBJECTS, ObjectExists, ObjectNotFound, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.storage.contract.object_store import ObjectStore
    from holdfast.storage.encryption.key_source import WrappingKey

KEYS = "keys/"
_NAME = re.compile(rf"{KEYS}[0-9]{{8}}\.json")
_LOOKS = 5
_TRIES = 5  # at a document that the store gives no answer to
_NONCE_BYTES = 12


class KnownKey(BaseModel):
    """Public record of a data key, with the id that sealed objects name it by."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=rf"^[0-9a-f]{{{KEY_ID_BYTES * 2}}}$")
    created: AwareDatetime


class RingDocument(BaseModel):
    """Stored form of a ring of keys; nothing in it is secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    ring: str  # an id of its own; copies of an archive may share a ring
    number: int = Field(ge=1)  # of this document; each is written once
    created: AwareDatetime
    wrapped_by: str  # fingerprint of the wrapping key; empty where a service wraps
    keys: tuple[KnownKey, ...] = Field(min_length=1)  # oldest first
    root: str  # the root key, wrapped, in base64
    sealed: str  # the data keys one after the other, sealed by the root key with all of the above, in base64

    @property
    def name(self) -> str:
        return _document_name(self.number)


def _document_name(number: int) -> str:
    return f"{KEYS}{number:08d}.json"


@dataclass(frozen=True)
class KeyRing:
    document: RingDocument
    keys: Mapping[bytes, DataKey]

    @property
    def newest(self) -> DataKey:
        return self.keys[bytes.fromhex(self.document.keys[-1].id)]


def document_names(store: ObjectStore) -> list[str]:
    """Return the keys of all ring documents, oldest first: several after a rotation that was ended."""
    return [info.key for info in store.list(KEYS, most=MOST_OBJECTS).objects if _NAME.fullmatch(info.key)]


def read_document(store: ObjectStore) -> RingDocument | None:
    """Return the ring as it is stored; None for an archive that is not encrypted.

    An empty document is passed over where there is an older one: it is what a refused write has left, for instance at a
    full quota, and its rotation has removed nothing.

    :raises DamagedError: it is not what was written.
    :raises StoreUnavailable: it is exchanged again and again meanwhile.
    """
    for _ in range(_LOOKS):
        names = document_names(store)
        if not names:
            return None
        try:
            name, body = next(((name, body) for name in reversed(names) if (body := store.get(name))), (names[-1], b""))
            document = RingDocument.model_validate_json(body)
        except ObjectNotFound:  # a rotation was just here
            continue
        except ValidationError:
            raise _damaged(name, store.url) from None
        if document.name != name:
            raise _damaged(name, store.url)
        return document
    raise StoreUnavailable(f"Could not read the keys of {store.url}: they are just being exchanged.")


def _damaged(name: str, url: str) -> DamagedError:
    return DamagedError(
        f"{name} in {url} is damaged, and without it nothing of the archive can be read: put back what was there, or "
        "the document that 'holdfast key show --json' has printed"
    )


@lru_cache(maxsize=16)
def open_ring(document: RingDocument, address: str, url: str) -> KeyRing:
    """Open the keys of a ring, by the wrapping key at an address, which is asked for once in a process.

    :raises UsageError: there is no such key, or it is another.
    :raises DamagedError: the document is not what was written.
    """
    return _open(document, find_key(address), url)


def _open(document: RingDocument, key: WrappingKey, url: str) -> KeyRing:
    if document.wrapped_by != key.fingerprint:
        given = f"has the fingerprint {key.fingerprint}" if key.fingerprint else "is that of a service"
        needed = f"the one with {document.wrapped_by}" if document.wrapped_by else "that of a service"
        raise UsageError(f"the key at {shown(key.address)} {given}, but {url} is opened by {needed}")
    try:
        root = key.unwrap(base64.b64decode(document.root, validate=True), _purpose(document.ring, document.number))
        sealed = base64.b64decode(document.sealed, validate=True)
        secrets = AESGCM(root).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _associated_data(document))
    except (InvalidTag, ValueError, UsageError) as error:  # binascii.Error is a ValueError
        raise _damaged(document.name, url) from error
    ids = [bytes.fromhex(key.id) for key in document.keys]
    if len(secrets) != KEY_BYTES * len(ids):
        raise _damaged(document.name, url)
    parts = [secrets[at : at + KEY_BYTES] for at in range(0, len(secrets), KEY_BYTES)]
    return KeyRing(document, {key_id: DataKey(key_id, secret) for key_id, secret in zip(ids, parts, strict=True)})


def create_ring(store: ObjectStore, address: str) -> RingDocument:
    """Make the first keys of an archive; RefusedError: it has some; HoldfastError: its key does not open them."""
    return _make(store, address, str(uuid.uuid4()), 1, (), {})


def renew_ring(store: ObjectStore, ring: KeyRing, address: str) -> RingDocument:
    """Add a data key, which seals all that is written from now on, and exchange the wrapping key.

    Older documents are removed. What was sealed before stays readable: its data key stays.

    :param address: of the wrapping key from now on; may be the present one.
    :raises RefusedError: another command has just done so, or an older document is still there.
    :raises HoldfastError: the wrapping key does not open what it has wrapped; nothing is changed.
    """
    before = ring.document
    secrets = {key_id.hex(): data_key.secret for key_id, data_key in ring.keys.items()}
    document = _make(store, address, before.ring, _next_number(store, before), before.keys, secrets)
    older = [name for name in document_names(store) if name < document.name]
    for name, error in store.delete_many(older).items():
        raise RefusedError(
            f"the new keys are in force, but the old key still opens {name}, which could not be removed: {error}"
        )
    return document


def _next_number(store: ObjectStore, before: RingDocument) -> int:
    """Return the number of the next document: each is written once, also where a refused write has left it empty."""
    number = before.number + 1
    names = document_names(store)
    while (name := _document_name(number)) in names and not store.get(name):
        number += 1
    return number


def store_document(store: ObjectStore, document: RingDocument) -> None:
    """Write a ring, however often the store gives no answer; RefusedError: there is another one of its number."""
    body = document.model_dump_json(indent=2).encode() + b"\n"
    for attempt in Retrying(
        retry=retry_if_exception_type(StoreOutcomeUnknown), stop=stop_after_attempt(_TRIES), reraise=True
    ):
        with attempt:
            try:
                store.create(document.name, body)
            except ObjectExists:
                if store.get(document.name) != body:
                    raise RefusedError(
                        f"another command has just made {document.name} in {store.url}: see 'holdfast key show'"
                    ) from None


def _make(
    store: ObjectStore,
    address: str,
    ring: str,
    number: int,
    former: tuple[KnownKey, ...],
    secrets: Mapping[str, bytes],
) -> RingDocument:
    """Make a document with one more data key, and store it once it is proved that it can be opened."""
    key = find_key(address)
    now = store.list(KEYS).now
    new = os.urandom(KEY_ID_BYTES).hex()
    while new in secrets:
        new = os.urandom(KEY_ID_BYTES).hex()
    secrets = {**secrets, new: os.urandom(KEY_BYTES)}
    keys = (*former, KnownKey(id=new, created=now))
    root, nonce = os.urandom(KEY_BYTES), os.urandom(_NONCE_BYTES)
    document = RingDocument(
        ring=ring,
        number=number,
        created=now,
        wrapped_by=key.fingerprint,
        keys=keys,
        root=base64.b64encode(key.wrap(root, _purpose(ring, number))).decode(),
        sealed="",
    )
    sealed = nonce + AESGCM(root).encrypt(nonce, b"".join(secrets[key.id] for key in keys), _associated_data(document))
    document = document.model_copy(update={"sealed": base64.b64encode(sealed).decode()})
    try:  # with the key as it is read again: commands and services may give another answer
        opened = {
            key_id.hex(): data_key.secret
            for key_id, data_key in _open(document, find_key(address), store.url).keys.items()
        }
    except (DamagedError, UsageError) as error:
        raise HoldfastError(_NOT_OPENED.format(address=shown(address))) from error
    if opened != secrets:
        raise HoldfastError(_NOT_OPENED.format(address=shown(address)))
    store_document(store, document)
    return document


_NOT_OPENED = "the key at {address} does not open what it has just wrapped, so nothing was changed: look at its command"


def _purpose(ring: str, number: int) -> str:
    return f"holdfast keys {number} of {ring}"


def _associated_data(document: RingDocument) -> bytes:
    """Return the fields of a document in the clear, as they are sealed with its data keys."""
    fields = document.model_dump(mode="json", exclude={"root", "sealed"})
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
