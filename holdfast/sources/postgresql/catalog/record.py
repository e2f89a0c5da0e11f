"""Base class of all parts of the catalog record."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class CatalogRecord(BaseModel):
    """Base of the catalog record's parts: immutable, and tolerant of unknown fields.

    A later release may add fields; this one ignores them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
