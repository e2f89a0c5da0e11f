"""Triggers: what a deferred task waits for.

Imports nothing else of `holdfast_airflow`.
"""

from __future__ import annotations
