"""Spark applications, one per operation, started with spark-submit by path."""

from __future__ import annotations
