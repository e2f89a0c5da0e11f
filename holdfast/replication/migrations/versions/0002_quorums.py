"""Quorums, the leader, and blocks of jobs that were taken for dead."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for name, kind, begins in (
        ("quorum_index", sa.BigInteger(), "0"),
        ("leader", sa.String(64), ""),
        ("leader_epoch", sa.BigInteger(), "0"),
        ("leader_until", sa.Double(), "0"),
    ):
        op.add_column("archives", sa.Column(name, kind, nullable=False, server_default=begins))
    op.create_table(
        "quorums",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("block", sa.String(64), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("deadline", sa.Double, nullable=False),
        sa.Column("end_before", sa.String(64), nullable=False),
        sa.Column("stream_before", sa.String(64), nullable=False),
        sa.Column("dropped_by", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_quorums"),
        sa.PrimaryKeyConstraint("archive", "index", name="pk_quorums"),
    )
    op.create_table(
        "votes",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("replica", sa.String(64), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_votes"),
        sa.PrimaryKeyConstraint("archive", "index", "replica", name="pk_votes"),
    )
    op.create_table(
        "abandoned",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("block", sa.String(64), nullable=False),
        sa.Column("replica", sa.String(64), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_abandoned"),
        sa.PrimaryKeyConstraint("archive", "block", name="pk_abandoned"),
    )
