"""Column for replicas that a rebuilding of the log has decided on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("replicas", sa.Column("set_aside", sa.Boolean(), nullable=False, server_default=sa.false()))
