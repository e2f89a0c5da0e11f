"""Collection of all samples: archives, servers and coordination stores, those of a kind side by side.

A part that cannot be read lacks its own samples only: its gauge `…_up` is 0, and a sentence says why.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import holdfast
from holdfast.archive import Archive
from holdfast.common.errors import HoldfastError, UsageError, sentence
from holdfast.common.side_by_side import ask_side_by_side
from holdfast.metrics import archive as of_archive
from holdfast.metrics import replicas, server
from holdfast.metrics.catalogue import sample
from holdfast.metrics.jobs import last_jobs
from holdfast.metrics.server import SourceServer
from holdfast.postgresql.connection.address import hide_passwords
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.config.archives_model import SourceConfig
    from holdfast.metrics.catalogue import Sample
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore

ARCHIVE_LIMIT_S = 60.0
"""Limit for reading all archives; their stores' own limits are shorter, mostly."""

LISTING_LIMIT_S = 3600.0
"""The same with lists of all objects: a million takes some minutes."""


@dataclass(frozen=True)
class ObservedArchive:
    """An archive to collect from.

    :param name: its label; None: the archive's own name.
    :param places: a function that opens its store, by URL: the first that can be read counts.
    :param sources: of archives.yaml, by name; `addresses`: of those with a server to ask.
    :param coordination: address of the coordination store.
    :param grace: of orphan files.
    :param mistake: in archives.yaml, if it does not say where the archive is.
    """

    name: str | None
    places: Mapping[str, Callable[[], ObjectStore]] = field(default_factory=dict)
    sources: Mapping[str, SourceConfig] = field(default_factory=dict)
    addresses: Mapping[str, Address] = field(default_factory=dict)
    coordination: str | None = None
    grace: timedelta = timedelta(hours=24)
    mistake: str = ""


@dataclass
class Collected:
    """Samples, and a sentence for each part that could not be read."""

    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Opened:
    """An archive with its label; `archive` is None if it could not be opened."""

    observed: ObservedArchive
    label: str
    archive: Archive | None


def collect(archives: Sequence[ObservedArchive], *, listing: bool = False) -> Collected:
    """Collect all samples; with `listing`, also those that need a list of all objects."""
    collected = Collected()
    collected.samples.append(sample("holdfast_build_info", 1, holdfast.__version__))
    opened = _open_all(archives, collected)
    _ask_servers(opened, collected)
    _ask_logs(opened, collected)
    _read_archives([each for each in opened if each.archive], collected, listing=listing)
    collected.samples.append(sample("holdfast_metrics_collected_timestamp_seconds", time.time()))
    collected.problems = [hide_passwords(each) for each in collected.problems]
    return collected


def _open_all(archives: Sequence[ObservedArchive], collected: Collected) -> list[_Opened]:
    questions = {str(number): partial(_open, each) for number, each in enumerate(archives) if not each.mistake}
    answers = ask_side_by_side(questions, limit_s=ARCHIVE_LIMIT_S)
    opened: list[_Opened] = []
    for number, observed in enumerate(archives):
        answer = answers.get(str(number), UsageError(observed.mistake))
        archive, failed = (None, [sentence(answer)]) if isinstance(answer, Exception) else answer
        label = _label(observed, archive, {each.label for each in opened})
        opened.append(_Opened(observed, label, archive))
        collected.problems += [f"archive {label} cannot be read: {each}" for each in failed]
        if archive is None:
            collected.samples.append(sample("holdfast_archive_up", 0, label))
    return opened


def _open(observed: ObservedArchive) -> tuple[Archive | None, list[str]]:
    """Return an archive at the first place that can be read, and the errors of the others."""
    failed: list[str] = []
    for open_store in observed.places.values():
        try:
            return Archive.open(open_store()), failed
        except (HoldfastError, StoreError) as error:
            failed.append(sentence(error))
    return None, failed


def _label(observed: ObservedArchive, archive: Archive | None, taken: set[str]) -> str:
    """Return the label of an archive: its name, or its URL beside a copy of the same name."""
    label = observed.name or (archive.identity.name if archive else "")
    if label and label not in taken:
        return label
    return _without_secrets(next(iter(observed.places), label))


def _without_secrets(url: str) -> str:
    """Return a URL without user and query."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _ask_servers(opened: Sequence[_Opened], collected: Collected) -> None:
    servers = {f"{each.archive}/{each.source}": each for one in opened for each in _servers(one)}
    answers = ask_side_by_side({name: each.ask for name, each in servers.items()}, limit_s=server.LIMIT_S)
    for name, answer in answers.items():
        asked = servers[name]
        if isinstance(answer, Exception):
            collected.samples.append(sample("holdfast_source_server_up", 0, asked.archive, asked.source))
            collected.problems.append(f"source {asked.source} of {asked.archive} cannot be read: {sentence(answer)}")
        else:
            collected.samples += asked.samples(answer)


def _servers(opened: _Opened) -> Iterator[SourceServer]:
    archive, observed = opened.archive, opened.observed
    for name, address in observed.addresses.items():
        yield SourceServer(
            archive=opened.label,
            source=name,
            address=address,
            archive_id=archive.identity.id if archive else None,
            follows=archive is not None and name in archive.state.streams,
            max_retained_wal=observed.sources[name].max_retained_wal,
        )


def _ask_logs(opened: Sequence[_Opened], collected: Collected) -> None:
    questions = {each.label: partial(_ask_log, each) for each in opened if _follows_log(each)}
    for label, answer in ask_side_by_side(questions, limit_s=ARCHIVE_LIMIT_S).items():
        if isinstance(answer, Exception):
            collected.samples.append(sample("holdfast_coordination_store_up", 0, label))
            collected.problems.append(f"the coordination store of {label} cannot be read: {sentence(answer)}")
        else:
            collected.samples += replicas.samples(answer, label)


def _follows_log(opened: _Opened) -> bool:
    if opened.archive is None:  # archives.yaml knows
        return opened.observed.coordination is not None
    return opened.archive.state.log is not None


def _ask_log(opened: _Opened) -> replicas.FollowedLog:
    archive = opened.archive.identity.id if opened.archive else None
    urls = [] if archive else [open_store().url for open_store in opened.observed.places.values()]
    return replicas.ask(opened.observed.coordination, archive, urls)


def _read_archives(opened: Sequence[_Opened], collected: Collected, *, listing: bool) -> None:
    questions = {each.label: partial(_read, each, listing=listing) for each in opened}
    for label, answer in ask_side_by_side(questions, limit_s=LISTING_LIMIT_S if listing else ARCHIVE_LIMIT_S).items():
        read = Collected(problems=[sentence(answer)]) if isinstance(answer, Exception) else answer
        collected.samples += [sample("holdfast_archive_up", not read.problems, label), *read.samples]
        collected.problems += [f"archive {label} cannot be read: {each}" for each in read.problems]


def _read(opened: _Opened, *, listing: bool) -> Collected:
    archive, label, read = opened.archive, opened.label, Collected()
    if archive is None:
        return read
    parts: list[Callable[[], Iterable[Sample]]] = [
        lambda: of_archive.contents(archive, label, opened.observed.sources),
        lambda: of_archive.holds(archive, label),
        lambda: of_archive.locks(archive, label),
    ]
    if listing:
        parts += [lambda: of_archive.unneeded(archive, label, opened.observed.grace), lambda: last_jobs(archive, label)]
    for part in parts:
        try:
            read.samples += part()
        except (HoldfastError, StoreError) as error:
            read.problems.append(sentence(error))
    return read
