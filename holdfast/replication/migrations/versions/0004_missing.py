"""Table of entries with missing files, each with the time since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "missing",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_missing"),
        sa.PrimaryKeyConstraint("archive", "index", name="pk_missing"),
    )
