"""The alert rules name what there is: metrics and labels of the catalogue, runbooks, and a test of each."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from holdfast.metrics.catalogue import CATALOGUE
from tests.support.monitoring import ALERT_TESTS, FOLDER, ROOT, rules
from tests.support.promql import named_in

RULES = rules()
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


@EACH
def test_a_rule_names_only_metrics_and_labels_of_the_catalogue(rule: dict[str, Any]) -> None:
    named = named_in(rule["expr"])
    assert named.metrics
    assert named.others == set()
    for metric, labels in named.metrics:
        assert labels | named.grouped <= set(CATALOGUE[metric].labels)


@EACH
def test_a_rule_says_how_grave_it_is_what_is_wrong_and_which_runbook_helps(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Holdfast[A-Z]\w+", rule["alert"])
    assert re.fullmatch(r"[1-9]\d*[smhd]", rule["for"])
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    assert set(rule["annotations"]) == {"summary", "runbook"}
    assert rule["annotations"]["runbook"].startswith("docs/runbooks/")
    assert (ROOT / rule["annotations"]["runbook"]).is_file()
    assert rule["annotations"]["summary"].endswith((".", "?"))


@EACH
def test_the_words_of_a_rule_name_labels_that_an_alert_has(rule: dict[str, Any]) -> None:
    named = named_in(rule["expr"])
    is_grouped = rule["expr"].startswith(("min by", "sum by"))
    left = frozenset(
        CATALOGUE[named.metrics[0][0]].labels
    )  # whose labels the other side of an operator does not change
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= (named.grouped if is_grouped else left)


def test_each_alert_has_one_name_and_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    names = [rule["alert"] for rule in RULES]
    assert [name for name, many in Counter(names).items() if many > 1] == []
    judged: dict[str, set[bool]] = {name: set() for name in names}
    for each in yaml.safe_load(ALERT_TESTS.read_text())["tests"]:
        for test in each["alert_rule_test"]:
            judged[test["alertname"]].add(bool(test["exp_alerts"]))
    assert {name for name, seen in judged.items() if seen != {True, False}} == set()


def test_prometheus_reads_these_rules() -> None:
    settings = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    assert settings["rule_files"] == ["alerts.yaml"]
    assert [job["job_name"] for job in settings["scrape_configs"]] == ["holdfast"]
