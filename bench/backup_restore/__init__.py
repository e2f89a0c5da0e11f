"""Backup and restore of a large table and of many small ones, beside COPY, pg_dump and Spark's JDBC."""

from __future__ import annotations
