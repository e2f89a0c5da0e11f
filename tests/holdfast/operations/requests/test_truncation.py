"""The request for a truncation: a form takes the rules that a truncation reads, and no others."""

from __future__ import annotations

import re

import pytest

from holdfast.archive.maintenance.retention import parse_rules
from holdfast.common.errors import UsageError
from holdfast.operations.requests.truncation import TruncationRequest

(KEEP,) = (field for field in TruncationRequest.options() if field.name == "keep")
PATTERN = dict(KEEP.option.schema)["items"]["pattern"]


@pytest.mark.parametrize("rule", ["last=2", "hourly=48", "daily=14", "weekly=8", "monthly=12", "yearly=5", "within=7d"])
def test_a_form_takes_every_rule(rule: str) -> None:
    assert re.search(PATTERN, rule)
    assert parse_rules([rule])


@pytest.mark.parametrize("rule", ["", "last", "last=", "last=two", "often=3", "last=2 ", "within=7x", "=2"])
def test_a_form_takes_nothing_that_a_truncation_would_refuse(rule: str) -> None:
    assert not re.search(PATTERN, rule)
    with pytest.raises(UsageError):
        parse_rules([rule])


def test_one_full_backup_stays_whatever_is_said() -> None:
    assert TruncationRequest().min_chains == 1
    (field,) = (field for field in TruncationRequest.options() if field.name == "min_chains")
    assert field.option.least == 1
