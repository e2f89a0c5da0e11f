"""The names by which benches are started."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def benches() -> list[str]:
    """Return the names of all, from their files."""
    folder = ROOT / "bench"
    alone = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    return sorted(alone | {file.parent.name for file in folder.glob("*/__main__.py")})


def test_make_starts_each_by_its_name() -> None:
    makefile = (ROOT / "Makefile").read_text()
    one_after_the_other = re.findall(r"for each in ([\w ]+); do .* python -m bench\.\$\$each", makefile)[0].split()
    assert sorted([*one_after_the_other, *re.findall(r"python -m bench\.(\w+)", makefile)]) == benches()


@pytest.mark.parametrize("name", benches())
def test_a_bench_says_how_it_is_started(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = (ROOT / "bench" / name).is_dir()
    module = import_module(f"bench.{name}.__main__" if package else f"bench.{name}")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    assert capsys.readouterr().out.startswith(f"usage: python -m bench.{name} ")
