"""Records of where sequences stood, with and without their oids."""

from __future__ import annotations

from holdfast.postgresql.catalog.sequences import SequenceBetween, SequenceValue, at_end, between


def value(name: str, last: int, oid: int = 0) -> SequenceValue:
    return SequenceValue(sequence_schema="public", name=name, last_value=last, is_called=True, oid=oid)


def told(found: SequenceValue) -> tuple[str, int, int | None, bool]:
    assert isinstance(found, SequenceBetween)
    earlier = found.earlier.last_value if found.earlier else None
    return found.name, found.last_value, earlier, found.is_past


def test_a_sequence_is_known_by_its_oid_whatever_it_is_called() -> None:
    wanted, earlier = [value("a", 1, 7), value("b", 1, 8)], [value("a", 2, 7), value("b", 3, 8)]
    later = [value("b", 4, 7), value("a", 5, 9)]
    assert [told(each) for each in between(wanted, earlier, later)] == [("a", 4, 2, False), ("b", 3, 3, True)]
    assert [(each.name, each.last_value) for each in at_end(wanted, later)] == [("a", 4), ("b", 1)]


def test_records_of_an_older_release_are_told_apart_by_names() -> None:
    wanted, earlier, later = [value("a", 1), value("new", 6)], [value("a", 2)], [value("a", 3, 7), value("new", 9, 8)]
    assert [told(each) for each in between(wanted, earlier, later)] == [("a", 3, 2, False), ("new", 9, None, False)]
    assert [told(each) for each in between(wanted[:1], earlier, None)] == [("a", 2, 2, True)]
    assert [each.last_value for each in at_end([value("a", 1, 7)], earlier)] == [2]
