"""Faults on purpose: networks that are cut, servers that are killed and started again."""

from __future__ import annotations
