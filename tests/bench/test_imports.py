from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_benchmarks_and_the_demo_import_nothing_of_tests() -> None:
    files = [file for folder in ("bench", "demo") for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 40
    assert [(file.name, name) for file in files for name in imported(file) if name.split(".")[0] == "tests"] == []
