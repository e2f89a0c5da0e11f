"""Counting what a dump brought."""

from __future__ import annotations

from pathlib import Path

from bench.backup_restore import backups, measurement


def test_the_mark_of_the_end_is_no_row(tmp_path: Path) -> None:
    file = tmp_path / "1.dat"
    file.write_bytes(b"1\ta\n2\t\\\\.\n3\t\n\\.\n\n\n")
    assert backups.rows_of_data_file(file) == 3


def test_only_lines_of_the_copy_are_rows(tmp_path: Path) -> None:
    script = tmp_path / "x.sql"
    script.write_bytes(b"SET x = 1;\nCOPY public.t (a) FROM stdin;\n1\n2\n\\.\n\nselect 1;\n")
    assert backups.rows_of_script(script) == 2


def test_every_comparison_has_a_name_of_its_own() -> None:
    names = [each.what for each in measurement.COMPARISONS]
    assert len(set(names)) == len(names)
