"""Column for the process that backs a source up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("sources", sa.Column("process", sa.Text(), nullable=False, server_default=""))
