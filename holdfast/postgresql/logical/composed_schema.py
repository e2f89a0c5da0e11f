"""Schemas at the end of a backup, and one that is put together of two."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.dump.dump_objects import DumpObjects

Side = Literal["earlier", "later", "neither"]
"""The schema whose definition of an object is that of the position; `neither`: it was not there."""


@dataclass(frozen=True)
class ComposedSchema:
    """A schema that is put together of two.

    :param catalog: without the values of sequences.
    :param entries: of the dumps, in an order that allows their creation.
    :param unsure: objects that may have been otherwise, for people.
    :param doubtful: tables that may have had other columns or names, or may not have been there: by oid, whose
        definition is taken.
    :param displaced: tables among them, by oid, that are left out since another one had their name.
    """

    catalog: Catalog
    entries: tuple[DumpEntry, ...]
    unsure: tuple[str, ...]
    doubtful: Mapping[int, Side]
    displaced: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownSchema:
    """The schema at the end of a backup."""

    catalog: Catalog
    dump: DumpObjects
