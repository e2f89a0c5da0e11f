from __future__ import annotations

from holdfast.postgresql.dump.dump_entries import DumpEntry, Section
from holdfast.postgresql.restore.plan.stages import after, stages

POST: Section = "post-data"


def entry(number: int, kind: str, *needs: int, section: Section = POST) -> DumpEntry:
    return DumpEntry(number, section, kind, 0, 0, "public", f"object {number}", needs, "select 1")


A, B = entry(1, "TABLE", section="pre-data"), entry(2, "TABLE", section="pre-data")
PART = entry(3, "TABLE", section="pre-data")
ATTACHED = entry(4, "TABLE ATTACH", 1, 3, section="pre-data")
KEY_A, KEY_B = entry(10, "CONSTRAINT", 1), entry(11, "CONSTRAINT", 2)
PART_KEY = entry(12, "CONSTRAINT", 3, 10)
INDEX_1, INDEX_2 = entry(13, "INDEX", 1), entry(14, "INDEX", 1)
COMMENT = entry(15, "COMMENT", 13)
ATTACH = entry(16, "INDEX ATTACH", 10, 12)
LATE_VIEW = entry(17, "VIEW", 1, 10)
LATE_INDEX = entry(18, "INDEX", 17)
REFERENCE, BACK, FROM_PART = (
    entry(20, "FK CONSTRAINT", 1, 2, 11),
    entry(21, "FK CONSTRAINT", 2, 1),
    entry(22, "FK CONSTRAINT", 3, 2),
)
OF_REFERENCE = entry(23, "COMMENT", 20)
POLICY, EVENT = entry(24, "POLICY", 1), entry(25, "EVENT TRIGGER")

EVERYTHING = (
    *(A, B, PART, ATTACHED, KEY_A, KEY_B, PART_KEY, INDEX_1, COMMENT, INDEX_2, ATTACH, LATE_VIEW, LATE_INDEX),
    *(REFERENCE, OF_REFERENCE, BACK, FROM_PART, POLICY, EVENT),
)


def numbers(*entries: DumpEntry) -> list[int]:
    return [each.id for each in entries]


def test_what_takes_time_stands_together_and_the_rest_keeps_its_order() -> None:
    found = [([each.id for each in stage.entries], stage.is_parallel) for stage in stages(EVERYTHING)]
    assert found == [
        (numbers(KEY_A, KEY_B, PART_KEY, INDEX_1, INDEX_2), True),
        (numbers(COMMENT, ATTACH, LATE_VIEW, LATE_INDEX), False),
        (numbers(REFERENCE, BACK, FROM_PART), True),
        (numbers(OF_REFERENCE, POLICY), False),  # event triggers come last of all, and not in a stage
    ]


def waits() -> dict[int, set[int]]:
    """For each entry those that must be done before it, of its own stage."""
    return {
        stage.entries[place].id: {stage.entries[each].id for each in before}
        for stage in stages(EVERYTHING)
        for place, before in after(stage, EVERYTHING).items()
    }


def test_indexes_of_a_table_are_built_at_once_behind_its_key() -> None:
    found = waits()
    assert found[KEY_A.id] == found[KEY_B.id] == set()
    assert found[INDEX_1.id] == found[INDEX_2.id] == {KEY_A.id}


def test_an_index_of_a_partition_waits_for_that_of_its_table() -> None:
    assert waits()[PART_KEY.id] == {KEY_A.id}


def test_a_constraint_waits_for_the_indexes_that_are_being_built() -> None:
    later = entry(30, "CONSTRAINT", 1)
    (built, *_) = stages((*EVERYTHING, later))
    places = after(built, EVERYTHING)[len(built.entries) - 1]
    assert {built.entries[place].id for place in places} == {KEY_A.id, INDEX_1.id, INDEX_2.id}


def test_keys_of_the_same_tables_follow_each_other_with_their_partitions() -> None:
    found = waits()
    assert found[REFERENCE.id] == set()
    assert found[BACK.id] == {REFERENCE.id}
    assert found[FROM_PART.id] == {BACK.id}


def test_without_foreign_keys_everything_has_its_place() -> None:
    left = [each for each in EVERYTHING if each not in (REFERENCE, BACK, FROM_PART, OF_REFERENCE)]
    assert [numbers(*stage.entries) for stage in stages(left)] == [
        numbers(KEY_A, KEY_B, PART_KEY, INDEX_1, INDEX_2),
        [],
        [],
        numbers(COMMENT, ATTACH, LATE_VIEW, LATE_INDEX, POLICY),
    ]
