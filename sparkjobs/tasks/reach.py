"""Questions to a worker: whether it reaches an archive's store, and a source."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.commits import COMMITS
from holdfast.archive.format.model import Identity
from holdfast.common.doctor_finding import DoctorFinding
from holdfast.common.errors import HoldfastError, sentence
from holdfast.postgresql.connection.session import connect
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class StoreReach:
    """Question whether a worker reads and writes an archive's store.

    :param identity: the archive's id as the driver has read it; "" where it could not.
    """

    store: ObjectStore
    identity: str

    def __call__(self, items: Iterable[object]) -> Iterator[DoctorFinding]:
        """Yield a finding on reading, and one on writing where the archive is there; the items only ask."""
        for _ in items:
            read = self._read()
            yield read
            if read.ok:
                yield self._written()

    def _read(self) -> DoctorFinding:
        try:
            identity = Identity.from_bytes(self.store.read(IDENTITY_KEY).body, IDENTITY_KEY)
            if self.identity not in ("", identity.id):
                return self._failed("archive", f"archive {identity.id} is there, and {self.identity} here: {_SHARED}")
            for commit in self.store.first(COMMITS, 1):
                self.store.read(commit.key)  # what is encrypted asks for its key
        except ObjectNotFound:
            return self._failed("archive", f"there is no {IDENTITY_KEY} at {self.store.url} there: {_SHARED}")
        except (HoldfastError, StoreError) as error:
            return self._failed("archive", sentence(error))
        return DoctorFinding("archive", f"{identity.name} at {self.store.url} can be read")

    def _written(self) -> DoctorFinding:
        """Write and delete an object where every archive expects such of a probe, and nothing looks at them."""
        key = f"probes/scratch-{uuid.uuid4().hex}-worker"
        try:
            self.store.put(key, b"")
        except (HoldfastError, StoreError) as error:
            return self._failed("writing", sentence(error))
        with suppress(StoreError):  # it is only litter then
            self.store.delete(key)
        return DoctorFinding("writing", f"{self.store.url} can be written")

    def _failed(self, what: str, remedy: str) -> DoctorFinding:
        return DoctorFinding(what, f"{self.store.url} cannot be {'read' if what == 'archive' else 'written'}", remedy)


@dataclass(frozen=True)
class SourceReach:
    """Question whether a worker reaches a source's database."""

    name: str
    address: Address

    def __call__(self, items: Iterable[object]) -> Iterator[DoctorFinding]:
        """Yield a finding; the items only ask."""
        for _ in items:
            what = f"source {self.name}"
            try:
                connect(self.address).close()
            except HoldfastError as error:
                yield DoctorFinding(what, f"{self.address.url} cannot be reached", sentence(error))
            else:
                yield DoctorFinding(what, f"{self.address.url} answers")


_SHARED = "an archive in a folder needs one that all machines share, at the same path"
