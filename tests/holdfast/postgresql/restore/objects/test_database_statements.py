"""Statements on the database itself: which run in a target, and which are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.catalog.database_settings import (
    DatabaseGrant,
    DatabaseSetting,
    DatabaseSettings,
    read_database_settings,
)
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.objects.database_statements import plan_database, run_statements

pytestmark = pytest.mark.service


def setting(text: str, role: str = "") -> DatabaseSettings:
    return DatabaseSettings(settings=(DatabaseSetting(role=role, text=text),))


def test_a_setting_by_which_nobody_can_connect_is_taken_back(new_database: Callable[..., Address]) -> None:
    address = new_database()
    with connect(address) as session:
        recorded = setting("session_preload_libraries=nowhere")
        plan = plan_database(session, recorded, is_wanted=True, is_trusted=True)
        (left,) = run_statements(session, address, plan)
        assert "no session could begin with it" in left.reason
        assert read_database_settings(session) == DatabaseSettings()


def test_what_the_server_refuses_is_named_and_the_rest_runs(new_database: Callable[..., Address]) -> None:
    address = new_database()
    recorded = DatabaseSettings(
        settings=(DatabaseSetting(role="", text="work_mem=much"), DatabaseSetting(role="", text="work_mem=8MB"))
    )
    with connect(address) as session:
        (left,) = run_statements(session, address, plan_database(session, recorded, is_wanted=True, is_trusted=False))
        assert 'invalid value for parameter "work_mem"' in left.reason
        assert read_database_settings(session) == setting("work_mem=8MB")


def test_what_a_release_has_not_recorded_is_named(new_database: Callable[..., Address]) -> None:
    with connect(new_database()) as session:
        (left,) = plan_database(session, None, is_wanted=True, is_trusted=False).not_restored
        assert plan_database(session, None, is_wanted=False, is_trusted=False).not_restored == ()
    assert left.reason == "the release that made the backup did not record them"


def test_a_role_that_is_created_has_its_settings(new_database: Callable[..., Address]) -> None:
    recorded = DatabaseSettings(
        settings=(DatabaseSetting(role="not_yet", text="work_mem=8MB"),),
        grants=(DatabaseGrant(role="never", privilege="CONNECT"),),
    )
    with connect(new_database()) as session:
        plan = plan_database(session, recorded, is_wanted=True, is_trusted=False, new_roles=["not_yet"])
    assert [each.role for each in plan.statements if each.role] == ["not_yet"]
    assert [each.reason for each in plan.not_restored] == ["the target has no role never"]


@pytest.mark.parametrize(
    "text",
    [
        "role=postgres",
        "standard_conforming_strings=off",
        'search_path=mine, "pg_catalog"',
        "search_path=mine, pg_catalog",
    ],
)
def test_an_archive_that_is_not_trusted_changes_no_meaning_of_a_superusers_statements(
    new_database: Callable[..., Address], text: str
) -> None:
    """Or whoever writes to the store would have his own functions called by whoever connects next."""
    with connect(new_database()) as session:
        plan = plan_database(session, setting(text), is_wanted=True, is_trusted=False)
        assert plan.statements == ()
        (left,) = plan.not_restored
        assert left.reason.startswith("it may load code, or change what statements mean")
        assert len(plan_database(session, setting(text), is_wanted=True, is_trusted=True).statements) == 1
        usual = setting("search_path=mine, public")
        assert len(plan_database(session, usual, is_wanted=True, is_trusted=False).statements) == 1
