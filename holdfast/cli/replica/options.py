"""Shared options of the replica commands: the coordination store and the archive."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.shared import places
from holdfast.common.errors import UsageError
from holdfast.common.signing import ArchiveKeys
from holdfast.config.archives_yaml import ReadArchives, find_config, read_archives
from holdfast.replication.log.replicas import replica, replicas
from holdfast.replication.log.store import ENVIRONMENT, is_there, opened
from holdfast.replication.work import membership
from holdfast.replication.work.sync import log_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

OfArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ARCHIVE",
        help="The archive: its name in archives.yaml or in the store, or its id. Default is the only one in the store.",
    ),
]
Replica = Annotated[str, typer.Argument(metavar="NAME", help="The replica's name, as 'replica status' shows it.")]
AnyReplica = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The replica's name, as 'replica status' shows it.")
]


@dataclass(frozen=True)
class Asked:
    """Coordination store and archive that a command's options name; `configured` by archives.yaml."""

    coordination: CoordinationStore
    word: str | None
    configured: ArchiveConfig | None

    def log(self) -> LogState:
        """Return the log of the archive that is meant, or raise UsageError."""
        if self.configured is not None and self.configured.replicas:
            urls = {self.place(url).url for url in self.configured.replicas.values()}
            return log_at(self.coordination, urls)
        return membership.only_archive(self.coordination, self.word)

    def row(self, name: str) -> ReplicaRow:
        """Return the store's row of a replica."""
        archive = self.log().archive
        return self.coordination.run(lambda c: replica(c, archive, name))

    def place(self, url: str) -> ObjectStore:
        """Return the object store of a replica."""
        return self.context(url).open()

    def context(self, url: str) -> ArchiveContext:
        """Return the context of a replica, with its archive's key in archives.yaml."""
        configured = self.configured
        keys = ArchiveKeys(configured.key, configured.signs) if configured else ArchiveKeys()
        return places.resolve(url, like=keys, coordination=self.coordination.url)


def _named(
    coordination: CoordinationStore,
    word: str | None,
    configured: ArchiveConfig | None,
    read: ReadArchives,
) -> Mapping[str, str]:
    """Return the replicas that archives.yaml names of the archive that is meant, or has a replica there."""
    if configured is not None:
        return configured.replicas or {}
    try:
        log = membership.only_archive(coordination, word)
    except UsageError:  # what needs an archive says so itself
        return {}
    there = {row.url for row in coordination.run(lambda c: replicas(c, log.archive))}
    named = (config.replicas for config in read.archives.values() if config.replicas)
    chosen = next((urls for urls in named if there & {url.rstrip("/") for url in urls.values()}), {})
    if not chosen:
        for url in there:
            read.refuse_mistaken(url)
    return chosen


def _stores(read: ReadArchives) -> set[str]:
    """Return the coordination stores that archives.yaml names; UsageError for an entry with a mistake."""
    for name, entry in read.unread.items():
        if isinstance(entry, Mapping) and "store" in entry:
            raise UsageError(read.mistakes[name])
    return {config.store for config in read.archives.values() if config.store}


@contextmanager
def ask(store: str | None, archive: str | None, *, create: bool = False, only_look: bool = False) -> Iterator[Asked]:
    """Open the coordination store that options, environment or archives.yaml name; `only_look`: or an empty one."""
    path = find_config()
    read = read_archives(path) if path else ReadArchives(Path())
    configured = read.archive(archive) if archive and archive in {*read.archives, *read.mistakes} else None
    address = store or os.environ.get(ENVIRONMENT) or (configured.store if configured else None)
    if not address and configured is None:
        said = _stores(read)
        address = said.pop() if len(said) == 1 else None
    with ExitStack() as stack:
        if only_look and address and not is_there(address):
            address = f"sqlite:///{stack.enter_context(TemporaryDirectory())}/empty.db"
        coordination = stack.enter_context(opened(address, create=create))
        coordination.named = _named(coordination, archive, configured, read)
        yield Asked(coordination, archive, configured)
