"""What every part of the catalog record has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class CatalogRecord(BaseModel):
    """Base of what the catalog record holds: immutable, and tolerant of what a later release adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")
