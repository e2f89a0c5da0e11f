"""Columns for the entries by which quorums are acknowledged, and replicas added and removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    for table, name in (("quorums", "acknowledged_by"), ("replicas", "joined_by"), ("replicas", "leaves_by")):
        op.add_column(table, sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
