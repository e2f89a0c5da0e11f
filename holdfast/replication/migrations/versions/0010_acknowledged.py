"""Column for the entries by which quorums are acknowledged.

Revision ID: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column."""
    op.add_column("quorums", sa.Column("acknowledged_by", sa.BigInteger(), nullable=False, server_default="0"))
