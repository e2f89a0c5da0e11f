"""The table of locks in the documentation is the one in the code."""

from __future__ import annotations

from pathlib import Path

from holdfast.archive.lockplan import ORDER, PLANS

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def table() -> tuple[list[str], dict[str, list[str]]]:
    """The names of the locks in the order of the columns, and the modes of each operation."""
    lines = PAGE.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| operation |"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return cells(lines[first])[1:], {operation: modes for operation, *modes in rows}


def test_columns_stand_in_the_order_in_which_locks_are_taken() -> None:
    names, _ = table()
    assert [name.removesuffix("-<source>") for name in names] == list(ORDER)


def test_each_operation_takes_the_locks_that_the_table_says() -> None:
    _, rows = table()
    planned = {operation: [modes.get(name, "") for name in ORDER] for operation, modes in PLANS.items()}
    assert rows == planned
