"""Context of an archive: its settings, keys and coordination store, resolved once by who works with it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.common.signing import AS_ENVIRONMENT_SAYS, ArchiveKeys, Signing
from holdfast.replication.log.settings import CoordinationAddress
from holdfast.storage.encryption.key_source import ENVIRONMENT as KEY_VARIABLE

if TYPE_CHECKING:
    from typing import Self

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.storage import SealedStore


@dataclass(frozen=True)
class ArchiveContext:
    """Context of work on an archive.

    :param settings: of archives.yaml; the usual ones where the archive is not in it.
    :param url: of the archive, or of the replica that is worked on.
    :param keys: that open the archive, sign what is written, and are believed.
    :param coordination: where the update log of its replicas is; without a URL where nothing says it.
    """

    settings: ArchiveConfig
    url: str
    keys: ArchiveKeys
    coordination: CoordinationAddress

    @classmethod
    def resolve(
        cls,
        settings: ArchiveConfig,
        url: str | None = None,
        *,
        keys: ArchiveKeys = AS_ENVIRONMENT_SAYS,
        coordination: str | None = None,
    ) -> Self:
        """Return the context from what was said, archives.yaml and the environment.

        What was said goes before both. Of the other two, archives.yaml goes before the environment where the keys are,
        and behind it where the coordination store is.

        :param url: of the replica that is worked on; None: the archive's own, or its first replica's.
        :param keys, coordination: as somebody said them.
        :raises UsageError: the environment has something else than replicas.
        """
        key = keys.key or settings.key or os.environ.get(KEY_VARIABLE) or None
        return cls(
            settings,
            url or settings.location(),
            ArchiveKeys(key, keys.signing or settings.signs or Signing.from_environment()),
            CoordinationAddress.resolve(coordination, configured=settings.store, replicas=settings.replicas),
        )

    def at(self, url: str) -> ArchiveContext:
        """Return the context of another replica."""
        return replace(self, url=url)

    @property
    def replicas(self) -> list[ArchiveContext]:
        """Return the contexts of all replicas in the order of archives.yaml; of an archive at one place, its own."""
        return [self.at(url) for url in (self.settings.replicas or {}).values()] or [self]

    def open(self) -> SealedStore:
        """Return the object store; nothing is read yet.

        :raises UsageError: the URL makes no sense.
        """
        from holdfast.storage import open_store  # takes a while to import, and Airflow's tasks import this early

        return open_store(self.url, *self.keys)
