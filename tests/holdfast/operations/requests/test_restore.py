"""The request for a restore: what its words mean, and which recovery targets a form takes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.common.errors import UsageError
from holdfast.operations.requests.restore import RestoreRequest
from tests.support.jobs.application_arguments import parse_request

PATTERN = str(dict(next(field for field in RestoreRequest.options() if field.name == "at").option.schema)["pattern"])


@pytest.mark.parametrize(
    "at",
    [
        "latest",
        "commit:12",
        "lsn:16/B374D848",
        "mark:before 4.2",
        "2026-03-01T12:00:00Z",
        "2026-03-01 12:00+02:00",
        "2026-03-01T12:00:00.123456-0500",
        "2026-03-01Z",
    ],
)
def test_a_form_takes_every_recovery_target(at: str) -> None:
    assert re.search(PATTERN, at)


@pytest.mark.parametrize(
    "at",
    ["", "soon", "commit:", "commit:x", "lsn:16", "mark:", "2026-03-01T12:00:00", "2026-03-01", "latest ", "x latest"],
)
def test_a_form_takes_nothing_that_is_none(at: str) -> None:
    assert not re.search(PATTERN, at)


@pytest.mark.parametrize(
    ("given", "is_beside"),
    [
        ({}, False),
        ({"tables": "shop.*"}, True),
        ({"map": "a=b"}, True),
        ({"tables": []}, False),
        ({"data_only": True}, True),
    ],
)
def test_chosen_tables_and_other_names_stand_beside_what_is_there(given: dict[str, object], is_beside: bool) -> None:
    assert RestoreRequest.given(**given).is_beside is is_beside


@pytest.mark.parametrize(
    ("roles", "creates", "harmless"), [("check", False, False), ("create", True, False), ("harmless", True, True)]
)
def test_roles_are_created_where_that_is_said(roles: str, creates: bool, harmless: bool) -> None:
    found = RestoreRequest.given(roles=roles)
    assert (found.creates_roles, found.has_harmless_roles) == (creates, harmless)


def test_a_form_and_a_command_offer_no_roles_that_are_for_drills_alone() -> None:
    (roles,) = (field for field in RestoreRequest.options() if field.name == "roles")
    assert dict(roles.option.schema)["enum"] == ["check", "create"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"roles": "all"}, "roles is 'all': write one of check, create, harmless"),
        ({"tablespaces": "new"}, "tablespaces is 'new': write one of drop, keep"),
        ({"data_only": True, "owner": "me", "roles": "create"}, "creates nothing: leave out --roles, --owner"),
        ({"schema_choice": "both"}, "schema_choice is 'both': write one of auto, earlier, later"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_those_that_do(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RestoreRequest.given(**given)


def test_a_time_before_now_is_resolved_once() -> None:
    before = datetime.now(UTC)
    found = RestoreRequest.given(at="-10min")
    assert timedelta() <= datetime.fromisoformat(found.at) - (before - timedelta(minutes=10)) < timedelta(minutes=1)
    assert parse_request(RestoreRequest, found.to_arguments()) == found
    assert (RestoreRequest.given(at="mark:-10min").at, RestoreRequest.given(at="-soon").at) == ("mark:-10min", "-soon")
    (at,) = (field for field in RestoreRequest.options() if field.name == "at")
    pattern = dict(at.option.schema)["pattern"]
    assert [bool(re.search(pattern, each)) for each in ("-10min", "-1.5 h", "-soon", "10min")] == [
        True,
        True,
        False,
        False,
    ]
