"""Since when nobody has had the files of an entry.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("entries", sa.Column("missing_since", sa.Double(), nullable=True))
