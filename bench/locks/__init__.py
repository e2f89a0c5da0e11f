"""Locks, beside a plain port of the paper's algorithm, in stores of different latency."""

from __future__ import annotations
