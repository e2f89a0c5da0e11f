"""Where archives.yaml is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "archives.yaml"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and AIRFLOW_HOME, and no file named by the environment."""
    monkeypatch.delenv("HOLDFAST_ARCHIVES", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
