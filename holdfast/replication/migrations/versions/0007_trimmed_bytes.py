"""Column for the bytes that a replica lacks of entries which were trimmed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("replicas", sa.Column("trimmed_bytes", sa.BigInteger(), nullable=False, server_default="0"))
