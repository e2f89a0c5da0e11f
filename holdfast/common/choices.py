"""Choices between a few words that several packages share."""

from __future__ import annotations

from typing import Literal

Schema = Literal["auto", "earlier", "later"]
"""The schema of a target, if it changed at an unknown time: the one before, the one after, or the better one."""
