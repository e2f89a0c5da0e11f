"""Bodies of the page's requests."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class BreakBody(_Body):
    """Decision to break a lock."""

    reason: str = Field(min_length=1, max_length=500, description="Why; kept in the archive with the user's name.")


class HoldBody(_Body):
    """Decision to hold a restore point."""

    source: str = Field(min_length=1, max_length=64)
    at: str = Field(min_length=1, max_length=200, description="As for `--at` of a restore.")
    reason: str = Field(min_length=1, max_length=500, description="Why, for whoever finds it in a year.")


class ReleaseBody(_Body):
    """Decision to take a hold back."""

    reason: str = Field(min_length=1, max_length=500)
