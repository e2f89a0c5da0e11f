"""Replicas that do not answer, as the coordination store knows them.

One whose place hangs costs each that asks it the whole time limit: so it is asked again after pauses that grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.words import human_span
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import replicas
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import ReplicaRow

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 3600.0
"""Seconds until a silent replica is asked again: as long as it has been silent, between these."""


@dataclass(frozen=True)
class NotAsked:
    """Replica that could not be asked how far it is; `why` is in words."""

    replica: str
    url: str
    why: str

    def describe(self) -> dict[str, str]:
        """Return it as a dict for JSON."""
        return {"replica": self.replica, "url": self.url, "why": self.why}

    @property
    def words(self) -> str:
        """Return a sentence that says what is therefore not known."""
        return (
            f"replica {self.replica} ({self.url}) could not be asked: {self.why}. So it is not known whether it has "
            "executed entries that the coordination store does not have"
        )


def is_paused(row: ReplicaRow, now: float) -> bool:
    """Return whether a replica is silent, and is not to be asked yet."""
    return row.ask_again_at > now


def silence_words(row: ReplicaRow, now: float) -> str:
    """Return in words why a silent replica is not asked."""
    silent, pause = human_span(max(0.0, now - row.silent_since)), human_span(max(0.0, row.ask_again_at - now))
    return f"it has not answered for {silent}, and is asked again in {pause}"


def note_answers(
    connection: Connection, archive: str, *, silent: Collection[str] = (), answered: Collection[str] = ()
) -> None:
    """Record which replicas have not answered in time, and which have."""
    r, now = schema.replicas.c, clock(connection)
    for row in replicas(connection, archive):
        of_row = schema.replicas.update().where(r.archive == archive, r.name == row.name)
        if row.name in silent:
            since = row.silent_since or now
            pause = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, now - since))
            connection.execute(of_row.values(silent_since=since, ask_again_at=now + pause))
        elif row.name in answered and row.silent_since:
            connection.execute(of_row.values(silent_since=0.0, ask_again_at=0.0))
