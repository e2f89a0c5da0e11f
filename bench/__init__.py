"""Measurements: holdfast beside raw COPY, pg_dump and Spark's JDBC, on this machine, in the same run."""

from __future__ import annotations
