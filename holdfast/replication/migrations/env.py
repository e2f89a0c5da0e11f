"""Environment of Alembic for the coordination store.

Migrations run in the transaction that the store has opened.
"""

from __future__ import annotations

from alembic import context

from holdfast.replication.log.schema import metadata
from holdfast.replication.log.store import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
context.run_migrations()
