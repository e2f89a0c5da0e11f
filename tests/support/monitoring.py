"""The files of monitoring/, read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "monitoring"
ALERTS = FOLDER / "alerts.yaml"
ALERT_TESTS = FOLDER / "alerts-test.yaml"
DASHBOARD = FOLDER / "grafana" / "dashboards" / "holdfast.json"

ARCHIVE_VARIABLE = "$archive"


def rules() -> list[dict[str, Any]]:
    """Return all alert rules."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    found = json.loads(DASHBOARD.read_text())
    assert isinstance(found, dict)
    return found


def panels() -> list[dict[str, Any]]:
    """Return the dashboard's panels, but for the titles of rows."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """Yield the expression and the legend of each query of the dashboard, for any archive."""
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"].replace(ARCHIVE_VARIABLE, ".*"), target["legendFormat"]
