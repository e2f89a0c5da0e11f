"""A ratio that fell by half is found; one that is a little less is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import check

BEFORE = {"backup: against COPY": 0.8, "backup: of small tables": 0.6}


def test_only_a_fall_by_half_counts() -> None:
    assert check.fallen({"backup: against COPY": 0.41, "backup: of small tables": 0.9}, BEFORE) == []
    assert check.fallen({"backup: against COPY": 0.39, "backup: of small tables": 0.01}, BEFORE) == [
        "backup: against COPY: it was 0.80, and is 0.39",
        "backup: of small tables: it was 0.60, and is 0.01",
    ]


def test_what_is_not_measured_any_more_is_named() -> None:
    assert check.fallen({"backup: against COPY": 0.8}, BEFORE) == [
        "backup: of small tables: it was 0.60, and is not measured any more"
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The ratios that benches report, which tests may change."""
    ratios = {"of small tables": 0.6}

    def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        module, folder = command[2], Path(command[-1])
        name = next(each.name for each in check.CHECKS if each.module == module)
        told = [{"comparison": {"what": what}, "best": best} for what, best in ratios.items()]
        if told:
            (folder / f"{name}.json").write_text(json.dumps({"ratios": told}))
        return subprocess.CompletedProcess(command, 1, "", "no server")

    monkeypatch.setattr(subprocess, "run", run)
    return ratios


def test_it_records_compares_and_fails(
    small: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = ["bench.check", "--known", str(tmp_path / "check.json")]
    monkeypatch.setattr("sys.argv", known)
    assert check.main() == 1
    assert "is not there: record first what the ratios are" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", [*known, "--record"])
    assert check.main() == 0
    monkeypatch.setattr("sys.argv", known)
    assert check.main() == 0
    small["of small tables"] = 0.2
    assert check.main() == 1
    assert "fell by half: backup_restore: of small tables: it was 0.60, and is 0.20" in capsys.readouterr().err
    small.clear()
    assert check.main() == 1
    assert "bench.backup_restore failed: no server" in capsys.readouterr().err
