"""Triggers: what a deferred task waits for."""

from __future__ import annotations
