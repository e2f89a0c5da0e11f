"""Tables whose changes go on being backed up between two cuts of a source, and those that start over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.common.lsn import PG_CLASS
from holdfast.postgresql.logical import ddl_effects
from holdfast.postgresql.logical.ddl_triggers import PG_ATTRIBUTE, PG_TYPE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.archive.format.block import Born
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.logical.window_reader import SeenDefinition
    from sparkjobs.driver.segments import Segment


@dataclass(frozen=True)
class FollowedTables:
    """Tables that the blocks of one run follow.

    :param followed: by oid, each with the oid of its entry in the publication.
    :param starting_over: names of those that need a snapshot first.
    :param born: those that are followed from their first row on.
    :param dropped: by oid, what was there before.
    :param until_changed: those that are followed as long as no definition is changed, each with its entry.
    """

    followed: dict[int, int]
    not_followed: dict[str, str]
    starting_over: tuple[str, ...]
    born: tuple[Born, ...] = ()
    dropped: tuple[int, ...] = ()
    until_changed: dict[int, int] = field(default_factory=dict)

    def without(self, uncertain: Collection[int], now: Catalog) -> FollowedTables:
        """Return a copy without the tables that have an uncertain column."""
        labels = tuple(
            table.label for table in now.tables if table.oid in uncertain and table.label not in self.starting_over
        )
        return replace(
            self,
            followed={oid: entry for oid, entry in self.followed.items() if oid not in uncertain},
            not_followed={**self.not_followed, **dict.fromkeys(labels, ddl_effects.UNCERTAIN)},
            starting_over=self.starting_over + labels,
            born=tuple(each for each in self.born if each.oid not in uncertain),
        )

    def held(self, now: Catalog) -> dict[int, int]:
        """Return the tables that start over for a change of their own, each with its entry in the publication.

        Until that change, the log has their rows.
        """
        return {
            table.oid: self.until_changed[table.oid]
            for table in now.tables
            if table.oid in self.until_changed
            and table.oid not in self.followed
            and self.not_followed.get(table.label) in ddl_effects.OF_THEIR_OWN
        }

    def holding(self, held: Mapping[int, int], now: Catalog) -> FollowedTables:
        """Return a copy that follows these tables, too."""
        labels = {table.label for table in now.tables if table.oid in held}
        return replace(
            self,
            followed={**self.followed, **held},
            not_followed={label: why for label, why in self.not_followed.items() if label not in labels},
            starting_over=tuple(label for label in self.starting_over if label not in labels),
        )


def touched_tables(change: SeenDefinition, tables: Collection[int]) -> set[int]:
    """Return the tables that a change of definitions may have touched.

    These are all where that is not known, and where it touched a type.
    """
    if change.objects is None or any(catalog == PG_TYPE for catalog, _ in change.objects):
        return set(tables)
    return {oid for catalog, oid in change.objects if catalog in (PG_CLASS, PG_ATTRIBUTE) and oid in tables}


def followed_tables(segment: Segment, was: dict[int, int], before: Catalog, *, begins: bool = False) -> FollowedTables:
    """Return the tables that a segment continues to follow without a gap.

    :param was: those of which everything before it is archived, each with its entry in the publication.
    :param before: what the objects were then.
    :param begins: `before` is of where the segment begins, so that tables which were made since may have no row there.
    """
    stream, now = segment.stream, segment.cut.catalog
    old = {table.oid: table for table in before.tables}
    new = {table.oid: table for table in now.tables}
    # A table that was dropped since was followed to its end.
    followed = {
        oid: entry for oid, entry in was.items() if stream.followed.get(oid) == entry or (oid in old and oid not in new)
    }
    born = tuple(each for each in stream.born if begins and each.oid in new and each.oid not in {**old, **was})
    followed |= {each.oid: stream.followed[each.oid] for each in born}
    reasons = {}
    for oid in {**followed, **stream.followed}:
        if oid in new:
            change = ddl_effects.TableChange(old.get(oid), new[oid], before, now, oid in was, oid in followed)
            reasons[oid] = ddl_effects.reason_to_start_over(change)
    reasons = {oid: reason for oid, reason in reasons.items() if reason}
    labels = {oid: new[oid].label for oid in reasons if new[oid].has_rows}
    return FollowedTables(
        {oid: entry for oid, entry in followed.items() if oid not in reasons},
        {**stream.not_followed, **{label: reasons[oid] for oid, label in labels.items()}},
        tuple(labels.values()),
        tuple(each for each in born if each.oid not in reasons),
        tuple(sorted(old.keys() - new.keys())),
        {oid: entry for oid, entry in followed.items() if oid in was},
    )
