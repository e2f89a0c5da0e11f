"""Columns for replicas that do not answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("replicas", sa.Column("silent_since", sa.Double(), nullable=False, server_default="0"))
    op.add_column("replicas", sa.Column("ask_again_at", sa.Double(), nullable=False, server_default="0"))
