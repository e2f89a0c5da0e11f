"""Line of an archive's update log: the id of the entry at each index, in this store and in those before it.

Ids stay when their entries are trimmed, and when the log is rebuilt. So a replica that has executed another entry is
never taken for one that is behind. Every memory of "how far" keeps a number with the id of what it numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.replication.log import schema
from holdfast.replication.log.quorum import FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from holdfast.archive.format.model import LogPlace
    from holdfast.replication.log.replicas import LogState

_L = schema.line.c
_B = schema.stores_before.c
_Q = schema.quorums.c


def note(connection: Connection, archive: str, index: int, entry: str) -> None:
    """Record the id of an entry, in the transaction that appends it."""
    connection.execute(schema.line.insert(), {"archive": archive, "index": index, "entry": entry})


def entry_id(connection: Connection, archive: str, index: int) -> str | None:
    """Return the id of the entry at an index, if it is known."""
    query = sa.select(_L.entry).where(_L.archive == archive, _L.index == index)
    return connection.execute(query).scalar_one_or_none()


def entry_ids(connection: Connection, archive: str) -> dict[int, str]:
    """Return the ids of all known entries, by index."""
    query = sa.select(_L.index, _L.entry).where(_L.archive == archive)
    return {row[0]: row[1] for row in connection.execute(query)}


def stores_before(connection: Connection, archive: str) -> dict[str, int]:
    """Return the log's earlier stores, each with the index of its last entry that counts."""
    query = sa.select(_B.store, _B.index).where(_B.archive == archive)
    return {row[0]: row[1] for row in connection.execute(query)}


def write_line(connection: Connection, archive: str, entries: Mapping[int, str], before: Mapping[str, int]) -> None:
    """Write the line of a log that was rebuilt."""
    if entries:
        rows = [{"archive": archive, "index": index, "entry": entry} for index, entry in sorted(entries.items())]
        connection.execute(schema.line.insert(), rows)
    if before:
        rows = [{"archive": archive, "store": store, "index": index} for store, index in sorted(before.items())]
        connection.execute(schema.stores_before.insert(), rows)


def contradiction(connection: Connection, log: LogState, place: LogPlace) -> str:
    """Return in words how a replica contradicts the log; "" where it does not.

    It follows a store that this one does not descend from, or has executed an entry that the line does not have, or has
    passed one that has not failed. Entries of one that was set aside do not count.
    """
    last = log.head if place.store == log.store else stores_before(connection, log.archive).get(place.store)
    if last is None:
        return f"follows the log of store {place.store}, which the coordination store does not know"
    if place.set_aside or (place.recovering and not place.recovery):
        return ""
    for index, entry in ((place.index, place.entry), (place.reached, place.reached_entry)):
        logged = entry_id(connection, log.archive, index)
        if index > last or (entry and logged not in (None, entry)):
            return f"has executed entry {index} ({entry}), which the coordination store does not know"
    if place.passed and place.index >= log.start and _counts(connection, log.archive, place.index):
        return f"has passed entry {place.index} ({place.entry}), whose failure the coordination store does not know"
    return ""


def _counts(connection: Connection, archive: str, index: int) -> bool:
    query = sa.select(_Q.state).where(_Q.archive == archive, _Q.index == index)
    return connection.execute(query).scalar_one_or_none() != FAILED
