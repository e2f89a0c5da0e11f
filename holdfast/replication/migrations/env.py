"""Runs migrations in the transaction that the store has opened."""

from __future__ import annotations

from alembic import context

from holdfast.replication.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="holdfast_version",
)
context.run_migrations()
