"""Chains of snapshots and changes: what can be restored, from which blocks, and what is said of the rest."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import TableRecord
from holdfast.archive.history import restore_points, target_resolution
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.maintenance.hold_requests import add_hold
from holdfast.common.errors import RefusedError
from tests.support.archives.chain_writer import ChainWriter


def test_changes_join_a_snapshot_that_falls_into_them(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    assert writer.intervals() == [("0/180", "0/180")]
    writer.changes("0/200", 1)
    assert writer.intervals() == [("0/180", "0/200")]
    writer.snapshot("0/280", 2)
    assert writer.intervals() == [("0/180", "0/200"), ("0/280", "0/280")]
    (gap,) = restore_points.describe(writer.archive.state)["sources"][0]["gaps"]
    assert "the next change backup closes it" in gap["reason"]
    writer.changes("0/300", 3)
    assert writer.intervals() == [("0/180", "0/300")]


def test_a_stream_that_was_opened_anew_leaves_a_gap_with_its_reason(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 1)
    writer._end = "0/250"
    writer.snapshot("0/280", 2, opened=True, gap="the slot was dropped")
    writer.changes("0/300", 3)
    assert writer.intervals() == [("0/180", "0/200"), ("0/280", "0/300")]
    (gap,) = restore_points.describe(writer.archive.state)["sources"][0]["gaps"]
    assert gap["reason"] == "the slot was dropped"
    with pytest.raises(RefusedError, match="what is here: lsn:0/180 to lsn:0/200, lsn:0/280 to lsn:0/300"):
        writer.at("lsn:0/220")


def test_a_gap_that_no_change_backup_can_close_any_more_says_so(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 1)
    writer.snapshot("0/280", 2)
    writer._end = "0/300"
    writer.snapshot("0/380", 3, opened=True, gap="the slot was dropped")
    first, second = restore_points.describe(writer.archive.state)["sources"][0]["gaps"]
    lost = "the changes since the first of them were lost before they were backed up: the slot was dropped"
    assert (first["reason"], second["reason"]) == (lost, "the slot was dropped")


def test_a_table_that_was_begun_anew_has_no_gap_behind_its_snapshot(writer: ChainWriter) -> None:
    table = TableRecord(id="7", table_schema="public", name="orders", rows=0, digest="0:0", files=())
    writer.snapshot("0/180", 0, opened=True, tables=(table,))
    writer.changes("0/200", 1)
    writer.followed = {}
    writer.changes("0/280", 2)
    writer.followed = {7: 71}
    writer.snapshot("0/380", 3, supplement=True, tables=(table,))
    writer.followed = {}
    writer.changes("0/380", 3)  # up to the snapshot, and committed behind it
    writer.followed = {7: 71}
    writer.changes("0/400", 4)
    (gap,) = restore_points.describe(writer.archive.state)["sources"][0]["gaps"]
    minutes = [datetime.fromisoformat(gap[each]).minute for each in ("from", "to")]
    assert (gap["table"], minutes) == ("public.orders", [1, 3])


def test_the_newest_snapshot_before_a_moment_is_begun_with(writer: ChainWriter) -> None:
    first = writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 1)
    second = writer.snapshot("0/280", 2)
    last = writer.changes("0/300", 3)

    def moment(at: str) -> RecoveryTarget:
        return target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", at)

    assert (moment("lsn:0/27F").full.commit, moment("lsn:0/280").full.commit) == (first, second)
    assert moment("lsn:0/280").is_snapshot
    assert [placed.commit for placed in moment("lsn:0/290").changes] == [last]
    assert [placed.commit for placed in moment("lsn:0/27F").changes] == [2, last]


def test_a_schema_that_changed_in_between_is_said_to_be_approximate(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 1)
    commit = writer.changes("0/300", 3, schema_version="2", ddl=("0/250",))

    def moment(position: str) -> RecoveryTarget:
        return target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", f"lsn:{position}")

    assert not moment("0/1F0").approximate
    assert moment("0/220").schema.commit == 2
    assert "it is not known when" in moment("0/220").approximate
    assert moment("0/260").schema.commit == commit
    assert not moment("0/300").approximate
    (interval,) = restore_points.describe(writer.archive.state)["sources"][0]["intervals"]
    assert len(interval["schema_approximate"]) == 1


def test_blocks_that_end_in_the_midst_of_changes_tell_no_schema(
    writer: ChainWriter, archive: Archive, noon: datetime
) -> None:
    def moment(position: str) -> RecoveryTarget:
        return target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", f"lsn:{position}")

    sequences = write_bytes(archive.store, "sequences.json", b"[]")
    writer.snapshot("0/180", 0, opened=True)
    first = writer.changes("0/200", 1, is_cut=False, ddl=("0/1A0",), sequences=sequences)
    assert (moment("0/190").schema.commit, moment("0/190").sequences.commit) == (1, first)
    assert "was ended before it had told the schema" in moment("0/200").approximate
    second = writer.changes("0/300", 2, is_cut=False, sequences=sequences)
    third = writer.changes("0/400", 3, schema_version="2", ddl=("0/390",), sequences=sequences)
    assert moment("0/190").schema.commit == 1
    assert [moment(each).schema.commit for each in ("0/1B0", "0/200", "0/300", "0/400")] == [third] * 4
    assert [moment(each).sequences.commit for each in ("0/180", "0/1B0", "0/200", "0/201", "0/3A0")] == [
        1, first, first, second, third,
    ]  # fmt: skip
    assert moment("0/300").approximate
    assert not moment("0/400").approximate


def test_tables_have_the_changes_between_their_snapshot_and_the_moment_while_they_are_followed(
    writer: ChainWriter,
) -> None:
    def rows(number: int, form: int = 0) -> TableRecord:
        return TableRecord(id=str(number), table_schema="public", name=f"t{number}", rows=form, digest="", files=())

    def tables(position: str) -> dict[str, tuple[str, int, int, list[int], str]]:
        moment = target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", f"lsn:{position}")
        return {
            name: (parts.base.label, parts.since, parts.upto, [each.rows for each in parts.changes], parts.stale)
            for name, parts in moment.tables().items()
        }

    writer.followed = {7: 70, 8: 80}
    writer.snapshot("0/180", 0, opened=True, tables=(rows(7), rows(8), rows(9)))
    writer.changes("0/180", 0, tables=(rows(7, 1),))
    writer.changes("0/200", 1, tables=(rows(8, 2), rows(7, 3), rows(8, 4)))
    writer.snapshot("0/280", 2, supplement=True, tables=(rows(8),))
    writer.changes("0/280", 2, tables=(rows(8, 5), rows(7, 6)))
    writer.followed = {7: 71, 8: 80}
    writer.changes("0/300", 3, tables=(rows(7, 7), rows(8, 8)))

    never, again = "it is not in the publication any more", "it left the publication and was added to it again"
    assert tables("0/180") == {str(number): (f"public.t{number}", 0x180, 0x180, [], "") for number in (7, 8, 9)}
    assert tables("0/200") == {
        "7": ("public.t7", 0x180, 0x200, [3], ""),
        "8": ("public.t8", 0x180, 0x200, [2, 4], ""),
        "9": ("public.t9", 0x180, 0x180, [], never),
    }
    assert tables("0/201")["8"] == ("public.t8", 0x180, 0x201, [2, 4, 5], "")
    assert tables("0/290") == {
        "7": ("public.t7", 0x180, 0x280, [3, 6], again),
        "8": ("public.t8", 0x280, 0x290, [8], ""),
        "9": ("public.t9", 0x180, 0x180, [], never),
    }


def remove(writer: ChainWriter, *blocks: str) -> None:
    change = Change(kind="truncation", remove=blocks)
    writer.archive.add(lambda state: change, check=lambda: None, fence=None)


def test_changes_behind_a_hole_are_joined_to_the_next_snapshot(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 1)
    writer.changes("0/300", 2)
    writer.snapshot("0/380", 3)
    writer.changes("0/400", 4)
    writer.changes("0/500", 5)
    remove(writer, "b3")
    assert writer.intervals() == [("0/180", "0/200"), ("0/380", "0/500")]
    (gap,) = restore_points.describe(writer.archive.state)["sources"][0]["gaps"]
    assert gap["reason"] == "the backups in between were removed"
    assert [writer.at(each) for each in ("commit:1", "commit:2", "commit:4", "commit:5")] == [
        "0/180", "0/200", "0/380", "0/400",
    ]  # fmt: skip
    with pytest.raises(RefusedError, match="commit:3 is no restore point"):
        writer.at("commit:3")
    writer.changes("0/600", 6)
    assert writer.intervals()[-1] == ("0/380", "0/600")


def test_changes_without_the_snapshot_before_them_are_no_restore_points(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 1)
    writer.changes("0/300", 2)
    remove(writer, "b1")
    assert writer.intervals() == []
    writer.snapshot("0/380", 3)
    writer.changes("0/400", 4)
    assert writer.intervals() == [("0/380", "0/400")]
    remove(writer, "b2", "b3")
    assert writer.intervals() == [("0/380", "0/400")]


def test_the_snapshot_of_a_new_server_is_not_joined_to_the_changes_of_the_old_one(writer: ChainWriter) -> None:
    writer.snapshot("0/980", 0, opened=True)
    writer.changes("0/900", 1)
    writer.changes("0/A00", 1)
    writer._end = "0/200"
    writer.snapshot("0/280", 2, opened=True, gap="another server")
    writer.changes("0/300", 3)
    writer.snapshot("0/380", 4)
    writer.changes("0/400", 5)
    remove(writer, "b4", "b5")
    assert writer.intervals() == [("0/980", "0/A00"), ("0/380", "0/400")]


def test_a_hold_in_quiet_times_is_of_the_first_backup_that_has_it_all(writer: ChainWriter, noon: datetime) -> None:
    def held(minute: int) -> str:
        at = (noon + timedelta(minutes=minute)).isoformat()
        return add_hold(writer.archive, None, at, reason="why", owner="me", check=lambda: None)[0].position

    writer.snapshot("0/110", 0, opened=True)
    writer.changes("0/200", 10, ("0/120", 3))
    writer.changes("0/300", 20)
    writer.changes("0/400", 30)
    assert [writer.minute(1), held(1)] == ["0/110", "0/200"]
    assert [writer.minute(5), held(5)] == ["0/128", "0/128"]
    assert [writer.minute(15), held(15), held(30)] == ["0/200", "0/300", "0/400"]
    writer.changes("0/500", 40, ("0/410", 35), ("0/420", 36))
    assert [writer.minute(15), held(15)] == ["0/200", "0/300"]
    # A clock that was set back: it was committed before that moment, and is behind it in the log.
    writer.changes("0/600", 50, ("0/510", 16), ("0/520", 45))
    assert [writer.minute(37), held(37)] == ["0/518", "0/518"]


def test_a_table_that_was_dropped_is_no_part_of_later_moments(writer: ChainWriter) -> None:
    def rows(number: int) -> TableRecord:
        return TableRecord(id=str(number), table_schema="public", name=f"t{number}", rows=0, digest="", files=())

    def tables(position: str) -> set[str]:
        moment = target_resolution.resolve(writer.archive.state, writer.archive.store, "shop_db", f"lsn:{position}")
        return set(moment.tables())

    writer.followed = {7: 70}
    writer.snapshot("0/180", 0, opened=True, tables=(rows(7), rows(8), rows(9)))
    writer.changes("0/200", 1)
    left_out = "rows of public.t9: not selected"
    writer.snapshot("0/280", 2, tables=(), whole=False, not_included=(left_out,))
    writer.changes("0/300", 3)
    writer.snapshot("0/380", 4, tables=(rows(7),))
    writer.changes("0/400", 5)
    assert [tables(each) for each in ("0/200", "0/300", "0/400")] == [{"7", "8", "9"}, {"7", "9"}, {"7"}]
