"""Places that a configuration names as replicas, and the coordination store does not know.

A store that was brought back from an older copy may not know a replica that was added since, and the replicas that it
knows may not, either. So the places that a configuration names are asked, too. What lies there need not be a replica of
the archive: then it says nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.archive.archive import IDENTITY_KEY, Archive
from holdfast.common.errors import HoldfastError, sentence
from holdfast.common.side_by_side import NoAnswerError
from holdfast.common.words import human_span
from holdfast.replication.log.silence import FIRST_PAUSE_S, NotAsked
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from holdfast.archive.format.model import LogPlace
    from holdfast.storage import ObjectStore

_silent_until: dict[str, float] = {}
"""By URL, until when this process does not ask a place that has not answered, by its own clock."""


@dataclass(frozen=True)
class NamedPlaces:
    """Places that are to be asked.

    :param stores: by URL; `names`: of the replicas, by URL.
    :param not_asked: those that cannot be asked.
    """

    stores: Mapping[str, ObjectStore]
    names: Mapping[str, str]
    not_asked: tuple[NotAsked, ...]

    @classmethod
    def beside(
        cls, urls: Collection[str], named: Mapping[str, str], places: Callable[[str], ObjectStore]
    ) -> NamedPlaces:
        """Return the named places that are not known.

        :param urls: URLs of replicas that the coordination store knows.
        :param named: URLs by name; however they are written, each place is asked once.
        :param places: opens a place by its URL.
        """
        stores: dict[str, ObjectStore] = {}
        names: dict[str, str] = {}
        not_asked: list[NotAsked] = []
        for name, url in named.items():
            if url in urls:  # as nearly always: to open a place that is written otherwise takes longer
                continue
            try:
                store = places(url)
            except (HoldfastError, StoreError) as error:  # a secret may stand in such a URL: it is not shown
                not_asked.append(NotAsked(name, "as configured", sentence(error)))
                continue
            if store.url in urls or store.url in stores:
                continue
            if (pause := _silent_until.get(store.url, 0.0) - time.monotonic()) > 0:
                why = f"it has not answered, and is asked again in {human_span(pause)}"
                not_asked.append(NotAsked(name, store.url, why))
                continue
            stores[store.url], names[store.url] = store, name
        return cls(stores, names, tuple(not_asked))

    def questions(self, archive: str) -> dict[str, Callable[[], LogPlace | None]]:
        """Return what each place is asked, by URL.

        :param archive: its id.
        """
        return {url: partial(_position, archive, store) for url, store in self.stores.items()}

    def positions(
        self, answers: Mapping[str, LogPlace | Exception | None]
    ) -> tuple[dict[str, LogPlace], tuple[NotAsked, ...]]:
        """Return the positions in the log, by URL, and those that could not be asked.

        :param answers: by URL; there may be others among them.
        """
        positions: dict[str, LogPlace] = {}
        not_asked = list(self.not_asked)
        for url, name in self.names.items():
            answer = answers[url]
            if isinstance(answer, (HoldfastError, StoreError)):
                not_asked.append(NotAsked(name, url, sentence(answer)))
                if isinstance(answer, NoAnswerError):
                    _silent_until[url] = time.monotonic() + FIRST_PAUSE_S
            elif isinstance(answer, Exception):
                raise answer
            elif answer is not None:
                positions[url] = answer
        return positions, tuple(not_asked)


def _position(archive: str, store: ObjectStore) -> LogPlace | None:
    """Return the position in the log of what lies at a place; None where that is no replica of this archive."""
    store = store.impatient()
    try:
        store.head(IDENTITY_KEY)
    except ObjectNotFound:
        return None
    opened = Archive.open(store, recovering=True)
    return opened.state.log if opened.identity.id == archive else None
