"""Spark's own JDBC reader and writer: their applications, and how they are submitted."""

from __future__ import annotations
