"""Tables of the ids that entries had, and of the stores that the log was in.

From now on, replicas record a rebuild's decision on them in their own commits.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "line",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("entry", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_line"),
        sa.PrimaryKeyConstraint("archive", "index", name="pk_line"),
    )
    op.create_table(
        "stores_before",
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("store", sa.String(64), nullable=False),
        sa.Column("index", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["archive"], ["archives.archive"], name="fk_stores_before"),
        sa.PrimaryKeyConstraint("archive", "store", name="pk_stores_before"),
    )
    op.execute('insert into line (archive, "index", entry) select archive, "index", entry from entries')
    op.drop_column("replicas", "set_aside")
