"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "archives",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("store", sa.String(64), nullable=False),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("log_start", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("archive", name="pk_archives"),
    )
    op.create_table(
        "replicas",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("pointer", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("active_until", sa.Double, nullable=False),
        sa.Column("is_lost", sa.Boolean, nullable=False),
        sa.Column("lost_reason", sa.Text, nullable=False),
        sa.Column("recovers_from", sa.String(64), nullable=False),
        sa.Column("synced_at", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_replicas"),
        sa.PrimaryKeyConstraint("archive", "name", name="pk_replicas"),
    )
    op.create_table(
        "entries",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("entry", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("appended_by", sa.String(64), nullable=False),
        sa.Column("appended_at", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_entries"),
        sa.PrimaryKeyConstraint("archive", "index", name="pk_entries"),
        sa.UniqueConstraint("entry", name="uq_entries_entry"),
    )
    op.create_table(
        "blocks",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("block", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_blocks"),
        sa.PrimaryKeyConstraint("archive", "block", name="pk_blocks"),
    )
    op.create_index("ix_blocks_archive_index", "blocks", ["archive", "index"])
    op.create_table(
        "sources",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("end_position", sa.String(64), nullable=False),
        sa.Column("stream_end", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("owned_until", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_sources"),
        sa.PrimaryKeyConstraint("archive", "source", name="pk_sources"),
    )
