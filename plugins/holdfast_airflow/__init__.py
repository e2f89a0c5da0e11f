"""Holdfast in Airflow: operators and triggers that back up, restore and lock."""

from __future__ import annotations
