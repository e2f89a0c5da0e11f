"""Metrics of archives for Prometheus: one list of them, what is asked for each, their text and where it goes.

Imports everything in `holdfast` but `cli`.
"""

from __future__ import annotations
