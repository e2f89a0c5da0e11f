"""What earlier releases made to publish new tables: found, and removed; nothing of ours has another's rights now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.readiness import check_database
from holdfast.postgresql.setup.stream_rights import WantedStream, has_new_tables_trigger

pytestmark = pytest.mark.service

OLD = Path(__file__).parents[3] / "fixtures" / "postgresql" / "new_tables.sql"

ROLE = "backs_up_without_new_tables"

PLAIN = WantedStream("holdfast_00000000000000aa")
ALL = WantedStream(PLAIN.name, identity_full=["*.*"], definitions=True)
"""All that set-up offers."""


@pytest.fixture(autouse=True)
def role(address: Address) -> Iterator[None]:
    """Remove the role that set-up creates."""
    yield
    grants.run(address, grants.plan_remove(address, [address.database], ROLE))


def run(address: Address, *statements: str) -> None:
    with connect(address) as session:
        for each in statements:
            session.execute(each.encode())


def set_up(address: Address, stream: WantedStream | None = None) -> str:
    """Set up a database, and return the script of that."""
    wanted = {address.database: stream} if stream else {}
    plan = grants.plan_setup(address, [address.database], ROLE, streams=wanted)
    grants.run(address, plan)
    return grants.script(plan)


def warned(address: Address) -> list[str]:
    return [each.what for each in check_database(address).warnings if "trigger" in each.what]


def functions(address: Address) -> set[tuple[str, bool, str]]:
    """Return all functions, each with whether it has its owner's rights, and its settings."""
    with connect(address) as session:
        rows = session.execute(
            "select pronamespace::regnamespace || '.' || proname, prosecdef, array_to_string(proconfig, ' ') "
            "from pg_proc"
        )
        return {(str(name), bool(definer), str(settings)) for name, definer, settings in rows}


@pytest.mark.parametrize("stream", [None, PLAIN], ids=["full backups", "changes"])
def test_the_trigger_of_an_earlier_release_is_found_and_removed(address: Address, stream: WantedStream | None) -> None:
    run(address, "create table public.t (id int primary key)", OLD.read_text())
    (found,) = warned(address)
    assert found.startswith("the event trigger of --new-tables is there: by its function, owners of schemas can become")
    assert "remove the event trigger of --new-tables" in set_up(address, stream)
    with connect(address) as session:
        assert not has_new_tables_trigger(session)
    assert warned(address) == []


def test_event_triggers_that_find_temporary_objects_first_are_found_and_replaced(address: Address) -> None:
    run(address, *(each.replace("pg_catalog, pg_temp", "pg_catalog") for each in ddl_triggers.CREATED))
    assert warned(address) == ["the event triggers of --definitions are of an earlier release"]
    set_up(address, PLAIN)
    assert warned(address) == []
    with connect(address) as session:
        assert ddl_triggers.is_current(session)


def test_no_function_of_a_set_up_has_its_owners_rights_or_finds_temporary_objects_first(address: Address) -> None:
    run(address, "create table public.t (id int)")
    before = functions(address)
    set_up(address, ALL)
    assert functions(address) - before == {("holdfast_log.note", False, "search_path=pg_catalog, pg_temp")}
