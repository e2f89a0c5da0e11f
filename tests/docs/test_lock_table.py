"""The table of locks in the documentation is the one in the code."""

from __future__ import annotations

from pathlib import Path

from holdfast.archive.locks.lock_table import AVAILABLE, ORDER, PLANS, TABLE

PAGE = Path(__file__).parents[2] / "docs" / "archive-locks.md"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table() -> tuple[list[str], dict[str, list[str]]]:
    """The names of the locks in the order of the columns, and the modes of each operation."""
    lines = PAGE.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| operation |"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return [name.strip("`") for name in cells(lines[first])[1:]], {operation: modes for operation, *modes in rows}


def test_columns_stand_in_the_order_in_which_locks_are_taken() -> None:
    names, _ = table()
    assert [name.removesuffix("-<source>") for name in names] == list(ORDER)


def test_each_operation_takes_the_locks_that_the_table_says() -> None:
    _, rows = table()
    planned = {
        ", ".join(row.operations): [str(row.needs[name]) if name in row.needs else "" for name in ORDER]
        for row in TABLE
    }
    assert rows == planned


def test_the_page_says_which_operations_are_there_and_what_the_others_are() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"This release has {', '.join(sorted(AVAILABLE))}" in text
    for row in TABLE:
        for name, note in row.notes.items():
            assert f"- {name}: {note}" in text
    assert len(PLANS) > len(AVAILABLE)
