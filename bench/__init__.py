"""Measurements: holdfast beside raw COPY, pg_dump and Spark's JDBC, on this machine, in the same run.

Each module and package but `support` is started by `python -m bench.NAME`.
"""

from __future__ import annotations
