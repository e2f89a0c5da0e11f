"""Kinds of database that can be backed up, one folder each."""

from __future__ import annotations
