"""Entries whose files no replica has, and since when that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.replication.log import schema
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


def note_missing(connection: Connection, archive: str, index: int, *, pause: float) -> float:
    """Record that no replica has an entry's files; return the seconds since when, without longer pauses."""
    now, m = clock(connection), schema.missing.c
    of_entry = (m.archive == archive, m.index == index)
    row = connection.execute(sa.select(m.since, m.seen).where(*of_entry)).one_or_none()
    since = row.since if row is not None and 0 <= now - row.seen <= pause else now
    connection.execute(schema.missing.delete().where(*of_entry))
    connection.execute(schema.missing.insert().values(archive=archive, index=index, since=since, seen=now))
    return float(now - since)


def clear_missing(connection: Connection, archive: str, *, first: int, last: int) -> None:
    """Remove the record of missing files from the entries first to last."""
    m = schema.missing.c
    connection.execute(schema.missing.delete().where(m.archive == archive, m.index.between(first, last)))


def missing_entries(connection: Connection, archive: str) -> Sequence[tuple[int, float]]:
    """Return indexes of entries with missing files, and since when (s since 1970)."""
    m = schema.missing.c
    query = sa.select(m.index, m.since).where(m.archive == archive).order_by(m.index)
    return [(row[0], row[1]) for row in connection.execute(query)]
