"""Tables of the coordination store.

They are made by `migrations/`, version by version. Times are seconds since 1970 by the store's own clock. Indexes of
entries begin at 1, without a hole.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_name)s"})


def _of_archive(name: str, *parts: Column[Any] | Index) -> Table:
    """Return a table whose rows are each of an archive."""
    of_archive = ForeignKeyConstraint(["archive"], ["archives.archive"], name=f"fk_{name}")
    return Table(name, metadata, Column("archive", String(64), primary_key=True), *parts, of_archive)


archives = Table(
    "archives",
    metadata,
    Column("archive", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("store", String(64), nullable=False),  # a store that was rebuilt, or is another one, has another
    Column("head", BigInteger, nullable=False),  # index of the last entry; 0: none
    Column("log_start", BigInteger, nullable=False),  # index of the oldest entry that is kept
    Column("quorum_index", BigInteger, nullable=False, server_default="0"),  # of the last one that acknowledges
    Column("leader", String(64), nullable=False, server_default=""),  # the replica that compacts and truncates
    Column("leader_epoch", BigInteger, nullable=False, server_default="0"),  # how often there came another one
    Column("leader_until", Double, nullable=False, server_default="0"),  # end of its lease
    Column("epochs", BigInteger, nullable=False, server_default="0"),  # all that removed replicas had are below it
)

replicas = _of_archive(
    "replicas",
    Column("name", String(64), primary_key=True),
    Column("url", Text, nullable=False),
    Column("pointer", BigInteger, nullable=False),  # index of the entry it executes next
    Column("epoch", BigInteger, nullable=False),  # how often it was activated after a lease had ended
    Column("active_until", Double, nullable=False),  # end of its lease
    Column("is_lost", Boolean, nullable=False),
    Column("lost_reason", Text, nullable=False),
    Column("recovers_from", String(64), nullable=False),  # the replica it is recovered from; empty: it is not
    Column("synced_at", Double, nullable=False),  # when its pointer last moved or was at the head
    Column("silent_since", Double, nullable=False, server_default="0"),  # since when it has not answered; 0: it does
    Column("ask_again_at", Double, nullable=False, server_default="0"),  # a silent one is not asked before that
    Column("trimmed_bytes", BigInteger, nullable=False, server_default="0"),  # of entries it lacks and the log, too
    Column("joined_by", BigInteger, nullable=False, server_default="0"),  # entry that has added it; 0: an older release
    Column("leaves_by", BigInteger, nullable=False, server_default="0"),  # entry that removes it; 0: it stays
)

entries = _of_archive(
    "entries",
    Column("index", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", String(64), nullable=False, unique=True),
    Column("kind", String(32), nullable=False),
    Column("change", Text, nullable=False),  # JSON: what each replica commits
    Column("size", BigInteger, nullable=False),  # bytes of the files that it adds
    Column("appended_by", String(64), nullable=False),
    Column("appended_at", Double, nullable=False),
)

line = _of_archive(
    "line",
    Column("index", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", String(64), nullable=False),  # stays when the entry is trimmed, and over rebuilds
)

stores_before = _of_archive(
    "stores_before",
    Column("store", String(64), primary_key=True),  # that the log was in before
    Column("index", BigInteger, nullable=False),  # at which it went on in another one
)

missing = _of_archive(
    "missing",
    Column("index", BigInteger, primary_key=True, autoincrement=False),  # of an entry whose files no replica has
    Column("since", Double, nullable=False),  # all were asked then, and at each later look
    Column("seen", Double, nullable=False),  # when that was so last
)

blocks = _of_archive(
    "blocks",
    Column("block", String(64), primary_key=True),
    Column("index", BigInteger, nullable=False),
    Index("ix_blocks_archive_index", "archive", "index"),
)

sources = _of_archive(
    "sources",
    Column("source", String(64), primary_key=True),
    Column("end_position", String(64), nullable=False),  # of its backups; empty: none yet
    Column("stream_end", String(64), nullable=False),  # of its changes; empty: they are not followed
    Column("owner", String(255), nullable=False),  # who backs it up now; empty: no process
    Column("owned_until", Double, nullable=False),
    Column("process", Text, nullable=False, server_default=""),  # JSON: of the owner; empty: it is not known
)

quorums = _of_archive(
    "quorums",
    Column("index", BigInteger, primary_key=True, autoincrement=False),  # of the entry that adds the block
    Column("block", String(64), nullable=False),
    Column("source", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),  # so many replicas are to hold the block
    Column("state", String(16), nullable=False),  # pending, committed or failed
    Column("deadline", Double, nullable=False),
    Column("end_before", String(64), nullable=False),  # the source's ends before it, to which a failure goes back
    Column("stream_before", String(64), nullable=False),
    Column("dropped_by", BigInteger, nullable=False),  # index of the entry that removes the block; 0: none
    Column("acknowledged_by", BigInteger, nullable=False, server_default="0"),  # of that which says it has succeeded
)

votes = _of_archive(
    "votes",
    Column("index", BigInteger, primary_key=True, autoincrement=False),
    Column("replica", String(64), primary_key=True),
    Column("epoch", BigInteger, nullable=False),  # of the replica, when it said that it holds the block
)

abandoned = _of_archive(
    "abandoned",
    Column("block", String(64), primary_key=True),  # its files may be gone: no entry may add it any more
    Column("replica", String(64), nullable=False),  # at whose place they lie
    Column("at", Double, nullable=False),
)
