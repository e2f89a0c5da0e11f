"""Store that seals the objects of an encrypted archive when they are written, and opens them when read.

Whether an archive is encrypted, its store says when the first object is touched that would be sealed. So a URL alone is
not enough to write to an encrypted archive in the clear, or to take it for a damaged one.
"""

from __future__ import annotations

import io
import os
import threading
from contextlib import contextmanager
from dataclasses import replace as with_changes
from typing import IO, TYPE_CHECKING, Any, cast

from holdfast.common.cleanup import clean_up
from holdfast.common.errors import DamagedError, UsageError
from holdfast.common.remote_environment import needed
from holdfast.storage.contract.keys import check_key
from holdfast.storage.contract.object_store import ObjectStore, check_new_document
from holdfast.storage.contract.parts import AHEAD_BYTES, RangeReader
from holdfast.storage.encryption.key_source import ENVIRONMENT, carry_key, shown
from holdfast.storage.encryption.keyring import (
    KEYS,
    KeyRing,
    create_ring,
    open_ring,
    read_document,
    renew_ring,
    store_document,
)
from holdfast.storage.encryption.sealing import (
    HEADER_BYTES,
    SealingWriter,
    Unsealer,
    content_size,
    key_id,
    seal,
    unseal,
)
from holdfast.storage.url import open_url
from locking.store import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from holdfast.storage.contract.object_store import Extended
    from holdfast.storage.encryption.sealing import DataKey
    from locking.store import ObjectInfo, StoreError

IN_THE_CLEAR = ("archive.json", KEYS, "locks/", "probes/")
"""Which archive it is and what opens it, and who works on it: needed by those who hold no key, too."""


class SealedStore(ObjectStore):
    """Store in front of another, for archives encrypted or not.

    Sizes are those of contents. Everything may raise :class:`UsageError` where the archive is encrypted and the key is
    not there or another, and :class:`DamagedError` where an object is not what was written under its name.

    :param key: address of the key that opens the archive; None for what `HOLDFAST_KEY` says. Where there is one, an
        archive that is not encrypted is refused.
    """

    def __init__(self, inner: ObjectStore, key: str | None = None) -> None:
        self._inner = inner
        self.url = inner.url
        self.endpoint = inner.endpoint
        self.clock_source = inner.clock_source
        self.key = key or os.environ.get(ENVIRONMENT) or None
        self._loading = threading.Lock()
        self._ring: KeyRing | None = None
        self._loaded = False

    @property
    def listing_is_ordered(self) -> bool:  # type: ignore[override]
        return self._inner.listing_is_ordered

    @property
    def bare(self) -> ObjectStore:
        return self._inner

    @property
    def locks_objects(self) -> bool:
        return self._inner.locks_objects

    def extend_locks(self, keys: Sequence[str]) -> Extended:
        return self._inner.extend_locks(keys)

    def harmful_rules(self) -> tuple[str, ...]:
        return self._inner.harmful_rules()

    def ring(self, *, reload: bool = False) -> KeyRing | None:
        """Return the archive's keys, read again by ``reload``; None where it is not encrypted."""
        with self._loading:
            if reload or not self._loaded:
                self._ring = self._load()
                self._loaded = True
            return self._ring

    def _load(self) -> KeyRing | None:
        document = read_document(self._inner)
        if document is None:
            if self.key is not None and self._inner.first("archive.json", 1):
                raise self._is_in_the_clear(self.key)
            return None
        if self.key is None:
            raise UsageError(
                f"{self.url} is encrypted: say where its key is in {ENVIRONMENT}, or with 'encryption: key:' in "
                "archives.yaml"
            )
        return open_ring(document, self.key, self.url)

    def _is_in_the_clear(self, key: str) -> UsageError:
        return UsageError(
            f"{self.url} is not encrypted, but there is a key for it ({shown(key)}): look whether this is "
            f"the archive you mean, or leave the key out ({ENVIRONMENT}, or encryption in archives.yaml)"
        )

    @property
    def is_encrypted(self) -> bool:
        return self.ring() is not None

    def begin(self, like: ObjectStore | None = None) -> None:
        if self.key is not None and self.ring(reload=True) is None:
            theirs = like.ring() if isinstance(like, SealedStore) and like.key == self.key else None
            if theirs is not None:
                store_document(self._inner, theirs.document)
            else:
                create_ring(self._inner, self.key)
            self.ring(reload=True)

    def renew(self, key: str) -> KeyRing:
        """Exchange the data key for new objects, and the wrapping key.

        :param key: address of the wrapping key; may be the present one.
        :raises UsageError: the archive is not encrypted.
        :raises RefusedError: another command has just done so, or what the former key opens could not be removed.
        """
        ring = self.ring(reload=True)
        if ring is None:
            raise UsageError(f"{self.url} is not encrypted: 'holdfast copy' makes an encrypted copy of an archive")
        document = renew_ring(self._inner, ring, key)
        with self._loading:
            self.key, self._ring = key, open_ring(document, key, self.url)
            return self._ring

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        self._ring_of(prefix)  # a missing key is an error even where there is nothing yet
        listing = self._inner.list(prefix, start_after=start_after, most=most)
        return Listing(tuple(map(self._info, listing.objects)), listing.now)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        self._ring_of(prefix)
        return tuple(map(self._info, self._inner.first(prefix, count)))

    def head(self, key: str) -> ObjectInfo:
        return self._info(self._inner.head(key))

    def _info(self, info: ObjectInfo) -> ObjectInfo:
        return with_changes(info, size=content_size(info.size)) if self._ring_of(info.key) else info

    def get(self, key: str) -> bytes:
        body = self._inner.get(key)
        return unseal(body, self._key_of(body, key), key) if self._sealed_with(key) else body

    def put(self, key: str, body: bytes) -> None:
        self._inner.put(key, self._seal(key, body))

    def create(self, key: str, body: bytes) -> None:
        self._inner.create(key, self._seal(key, body))

    def replace(self, key: str, body: bytes, etag: str) -> None:
        self._inner.replace(key, self._seal(key, body), etag)

    def behind(self, inner: ObjectStore) -> SealedStore:
        return SealedStore(inner, self.key)

    def gated(self, gate: Callable[[], None]) -> ObjectStore:
        gated = self._inner.gated(gate)
        return self if gated is self._inner else self.behind(gated)

    def impatient(self) -> ObjectStore:
        hurried = self._inner.impatient()
        return self if hurried is self._inner else self.behind(hurried)

    def touch(self, key: str, body: bytes) -> None:
        self._inner.touch(key, self._seal(key, body))

    def delete(self, key: str) -> None:
        self._inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        return self._inner.delete_many(keys)

    def delete_each(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        return self._inner.delete_each(keys)

    def filesystem(self) -> tuple[FileSystem, str]:
        if self._sealed_with("data/") is None:
            return self._inner.filesystem()
        from holdfast.storage.contract.read_only import (
            ReadOnly,  # pyarrow starts threads: see sparkjobs/executors/daemon.py
        )

        return ReadOnly.over(self), ""

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        ring = self._sealed_with(key)
        with self._inner.open_write(key) as file:
            if ring is None:
                yield file
                return
            with SealingWriter(file.write, ring.newest, key) as sealing:
                yield cast("IO[bytes]", sealing)
                sealing.finish()

    def open_read(self, key: str) -> IO[bytes]:
        ring = self._sealed_with(key)
        file = self._inner.open_read(key)
        if ring is None:
            return file
        try:
            return cast("IO[bytes]", io.BufferedReader(self._opened(file, key), AHEAD_BYTES))
        except BaseException as error:
            clean_up(error, file.close)
            raise

    def copy_from(self, source: ObjectStore, key: str, size: int, sha256: str) -> bool:
        theirs = source if isinstance(source, SealedStore) else None
        if self._sealed_with(key) is not None or theirs is None or theirs._sealed_with(key) is not None:
            return False  # the checksum is that of the content, and the store knows only what it is sealed to
        return self._inner.copy_from(theirs._inner, key, size, sha256)

    def _opened(self, file: IO[bytes], key: str) -> io.RawIOBase:
        header = file.read(HEADER_BYTES)
        size = file.seek(0, io.SEEK_END)

        def fetch(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        unsealer = Unsealer(header, size, self._key_of(header, key), key, fetch)
        return _Opened(unsealer, file)

    def _ring_of(self, key: str) -> KeyRing | None:
        """Return the keys that an object is sealed with; None where it is in the clear."""
        return None if key.startswith(IN_THE_CLEAR) else self.ring()

    def _sealed_with(self, key: str) -> KeyRing | None:
        """Return the keys that the content of an object is sealed with; None where it is in the clear.

        A store that shows no keys may be hiding them: who has a key neither writes there in the clear, nor believes
        what is.
        """
        ring = self._ring_of(key)
        if ring is None and self.key is not None and not key.startswith(IN_THE_CLEAR):
            raise self._is_in_the_clear(self.key)
        return ring

    def _seal(self, key: str, body: bytes) -> bytes:
        ring = self._sealed_with(key)
        stored = seal(body, ring.newest, check_key(key)) if ring else body
        check_new_document(key, len(stored))
        return stored

    def _key_of(self, header: bytes, name: str) -> DataKey:
        """Return the key that an object is sealed with; a ring that was renewed is read again."""
        sealing_key = key_id(header, name)
        for reload in (False, True):
            ring = self.ring(reload=reload)
            if ring is not None and sealing_key in ring.keys:
                return ring.keys[sealing_key]
        raise DamagedError(
            f"{name} is sealed with the key {sealing_key.hex()}, which this archive does not have: its {KEYS} are "
            f"older than it, or it is not ours. Put back the newest of {KEYS}, or what 'holdfast key show --json' has "
            "printed"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        remote = needed()  # processes of this machine find the key themselves
        key = carry_key(self.key, remote) if self.key is not None and remote is not None else self.key
        return SealedStore, (self._inner, key)

    @classmethod
    def from_url(cls, url: str) -> SealedStore:
        return cls(open_url(url))


class _Opened(RangeReader):
    def __init__(self, unsealer: Unsealer, file: IO[bytes]) -> None:
        super().__init__(unsealer.size, unsealer.fetch)
        self._file = file

    def close(self) -> None:
        clean_up(None, self._file.close, super().close)
