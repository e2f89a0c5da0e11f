"""Epochs that are not used again after a replica was removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("archives", sa.Column("epochs", sa.BigInteger(), nullable=False, server_default="0"))
