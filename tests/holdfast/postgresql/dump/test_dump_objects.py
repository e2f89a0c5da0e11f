"""Objects of a dump, and the order of the entries of two dumps."""

from __future__ import annotations

from dataclasses import replace

from holdfast.postgresql.dump.dump_entries import DumpEntry, Section
from holdfast.postgresql.dump.dump_objects import DumpObjects, in_order, places

TABLE, SEQUENCE, DEFAULT, OWNED, COMMENT, ACL, INDEX, VIEW = range(1, 9)


def entry(number: int, kind: str, name: str, *needs: int, oid: int = 0, section: Section = "pre-data") -> DumpEntry:
    return DumpEntry(number, section, kind, 1259 if oid else 0, oid, "public", name, needs, f"-- {kind} {name}")


ENTRIES = (
    entry(TABLE, "TABLE", "orders", oid=10),
    entry(SEQUENCE, "SEQUENCE", "orders_id_seq", oid=11),
    replace(
        entry(OWNED, "SEQUENCE OWNED BY", "orders_id_seq", SEQUENCE),
        sql="ALTER SEQUENCE public.orders_id_seq OWNED BY public.orders.id;",
    ),
    entry(DEFAULT, "DEFAULT", "orders id", SEQUENCE, TABLE, oid=12),
    entry(COMMENT, "COMMENT", "TABLE orders", TABLE),
    entry(ACL, "ACL", "TABLE orders", TABLE),
    entry(VIEW, "VIEW", "sums", TABLE, oid=13),
    entry(INDEX, "INDEX", "orders_word", TABLE, oid=14, section="post-data"),
)


def test_what_is_said_of_an_object_belongs_to_it() -> None:
    orders = DumpObjects(ENTRIES).objects["TABLE", 1259, 10]
    assert [each.id for each in orders.parts] == [DEFAULT]
    assert [each.id for each in orders.comments] == [COMMENT]
    assert [each.id for each in orders.privileges] == [ACL]
    assert all("COMMENT" not in sql for _, sql in orders.text)


def test_the_owner_of_a_sequence_needs_its_table() -> None:
    dump = DumpObjects(ENTRIES)
    assert dump.needs(dump.keys[OWNED]) == {("SEQUENCE", 1259, 11), ("TABLE", 1259, 10)}


def test_what_only_one_dump_has_stands_behind_what_comes_before_it_there() -> None:
    first = DumpObjects([ENTRIES[0], ENTRIES[6], ENTRIES[7]])
    added = entry(40, "TABLE", "between", oid=20)
    index = entry(41, "INDEX", "between_index", 40, oid=21, section="post-data")
    second = DumpObjects([ENTRIES[0], added, ENTRIES[6], index])
    ours, theirs = places(first, second)
    assert ours[TABLE] < theirs[40] < ours[VIEW] < theirs[41] < ours[INDEX]


def test_entries_come_behind_what_they_need_and_a_circle_ends() -> None:
    told = {
        1: (3.0, entry(1, "TABLE", "a", 2)),
        2: (4.0, entry(2, "TABLE", "b")),
        3: (1.0, entry(3, "TYPE", "c", 4)),
        4: (2.0, entry(4, "FUNCTION", "d", 3)),
        5: (5.0, entry(5, "VIEW", "e", 1, 99)),
    }
    assert [each.id for each in in_order(told)] == [2, 1, 5, 3, 4]
