"""The tables of the coordination store. What is here is made by `migrations/`, version by version.

Times are seconds since 1970 by the store's own clock. Indexes of entries begin at 1, without a hole.
"""

from __future__ import annotations

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


def _of_archive(table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["archive"], ["archives.archive"], name=f"fk_{table}")


archives = Table(
    "archives",
    metadata,
    Column("archive", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("store", String(64), nullable=False),  # a store that was rebuilt, or is another one, has another
    Column("head", BigInteger, nullable=False),  # index of the last entry; 0: none
    Column("log_start", BigInteger, nullable=False),  # index of the oldest entry that is kept
)

replicas = Table(
    "replicas",
    metadata,
    Column("archive", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("url", Text, nullable=False),
    Column("pointer", BigInteger, nullable=False),  # index of the entry it executes next
    Column("epoch", BigInteger, nullable=False),  # how often it was activated after a lease had ended
    Column("active_until", Double, nullable=False),  # end of its lease
    Column("is_lost", Boolean, nullable=False),
    Column("lost_reason", Text, nullable=False),
    Column("recovers_from", String(64), nullable=False),  # the replica it is made anew from; empty: it is not
    Column("synced_at", Double, nullable=False),  # when its pointer last moved or was at the head
    _of_archive("replicas"),
)

entries = Table(
    "entries",
    metadata,
    Column("archive", String(64), primary_key=True),
    Column("index", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", String(64), nullable=False, unique=True),
    Column("kind", String(32), nullable=False),
    Column("change", Text, nullable=False),  # JSON: what each replica commits
    Column("size", BigInteger, nullable=False),  # bytes of the files that it adds
    Column("appended_by", String(64), nullable=False),
    Column("appended_at", Double, nullable=False),
    _of_archive("entries"),
)

blocks = Table(
    "blocks",
    metadata,
    Column("archive", String(64), primary_key=True),
    Column("block", String(64), primary_key=True),
    Column("index", BigInteger, nullable=False),
    _of_archive("blocks"),
    Index("ix_blocks_archive_index", "archive", "index"),
)

sources = Table(
    "sources",
    metadata,
    Column("archive", String(64), primary_key=True),
    Column("source", String(64), primary_key=True),
    Column("end_position", String(64), nullable=False),  # of its backups; empty: none yet
    Column("stream_end", String(64), nullable=False),  # of its changes; empty: they are not followed
    Column("owner", String(255), nullable=False),  # who backs it up now; empty: nobody
    Column("owned_until", Double, nullable=False),
    _of_archive("sources"),
)
