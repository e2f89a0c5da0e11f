"""The dashboard has what Grafana needs, and names only what there is. Grafana itself is not started here."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from holdfast.metrics.catalogue import CATALOGUE
from tests.support.monitoring import DASHBOARD, FOLDER, ROOT, dashboard, panels, queries
from tests.support.promql import named_in


@pytest.mark.parametrize(("expression", "legend"), list(queries()))
def test_a_query_names_only_metrics_and_labels_of_the_catalogue(expression: str, legend: str) -> None:
    named = named_in(expression)
    assert named.metrics
    assert named.others == set()
    for metric, labels in named.metrics:
        there = set(CATALOGUE[metric].labels)
        assert labels | named.grouped <= there
        assert "archive" in labels or metric == "holdfast_metrics_collected_timestamp_seconds"
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= (named.grouped or there)


def test_what_is_told_of_archives_is_shown() -> None:
    shown = {metric for expression, _ in queries() for metric, _ in named_in(expression).metrics}
    left_out = {
        "holdfast_build_info", "holdfast_archive_format", "holdfast_coordination_store_up",
        "holdfast_job_last_ended_timestamp_seconds", "holdfast_job_last_rows", "holdfast_job_last_bytes",
    }  # fmt: skip
    assert set(CATALOGUE) - shown == left_out


def test_the_file_has_what_grafana_needs() -> None:
    found = dashboard()
    assert found["id"] is None  # Grafana gives it one
    assert (found["uid"], found["title"]) == ("holdfast", "Holdfast")
    assert isinstance(found["schemaVersion"], int)
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert (variables["archive"]["type"], variables["archive"]["allValue"]) == ("query", ".*")
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables["archive"]["query"]["query"])
    assert asked
    assert asked[2] in CATALOGUE[asked[1]].labels


def test_each_panel_has_an_id_a_place_and_queries_of_the_chosen_source_of_data() -> None:
    every = dashboard()["panels"]
    ids = [panel["id"] for panel in every]
    assert sorted(set(ids)) == sorted(ids)
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels():
        assert (panel["type"], panel["datasource"]) in ((kind, source) for kind in ("stat", "table", "timeseries"))
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert references == sorted(set(references))
        assert references
        assert all(target["expr"] and target["datasource"] == source for target in panel["targets"])


def test_no_panel_lies_on_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


def test_grafana_is_told_where_both_are() -> None:
    provisioning = FOLDER / "grafana" / "provisioning"

    def only(name: str, key: str) -> dict[str, Any]:
        (found,) = yaml.safe_load((provisioning / name).read_text())[key]
        assert isinstance(found, dict)
        return found

    source = only("datasources/prometheus.yaml", "datasources")
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    assert source["url"].removeprefix("http://").partition(":")[0] in services
    path = only("dashboards/holdfast.yaml", "providers")["options"]["path"]
    mounts = [each.split(":")[:2] for each in services["grafana"]["volumes"]]
    assert [f"./{DASHBOARD.parent.relative_to(ROOT)}", path] in mounts
