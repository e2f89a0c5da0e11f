"""Context of an archive: its settings, keys and coordination store, resolved once, at the edge."""

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

    :param settings: of archives.yaml, else the defaults.
    :param url: of the archive, or of the replica in use.
    :param keys: to open the archive, to sign, and to check signatures.
    :param coordination: of the replicas' update log.
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
        """Return the context from options, archives.yaml and the environment.

        Options come first. Then, for keys, archives.yaml and the environment; for the coordination store, the
        environment and archives.yaml.

        :param url: option, of the replica in use; default is the archive's own, or its first replica's.
        :param keys, coordination: options.
        :raises UsageError: the environment's list of replicas is invalid.
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
        """Return the contexts of all replicas in the order of archives.yaml; without replicas, its own."""
        return [self.at(url) for url in (self.settings.replicas or {}).values()] or [self]

    def open(self) -> SealedStore:
        """Return the object store; nothing is read yet. Raises UsageError for an invalid URL."""
        from holdfast.storage import open_store  # takes a while to import, and Airflow's tasks import this early

        return open_store(self.url, *self.keys)
