"""Streams that are set up for a role that owns nothing, and are taken back with all that came with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.logical.stream import drop_stream, open_stream
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.backup_role import MARK
from holdfast.postgresql.setup.stream_rights import WantedStream, streams_of
from tests.support.databases.granting import Execute, exists, remove, run_script, setup

pytestmark = pytest.mark.service


STREAM = "holdfast_00000000000000aa"


def stream_left(address: Address) -> list[str]:
    with connect(address) as session:
        return list(streams_of(session))


@pytest.fixture
def keyed(shop: Address, execute: Execute) -> Iterator[Address]:
    """The shop with a table that has a key, one whose identity is nothing, and one with an index that it could use."""
    execute(
        "create table hr.keyed (id int primary key)",
        "create table hr.none (id int primary key); alter table hr.none replica identity nothing",
        "create table hr.by_index (id int not null unique); alter table hr.by_index replica identity using index "
        "by_index_id_key",
    )
    yield shop
    with connect(shop) as session:
        drop_stream(session, STREAM)


def identities(address: Address) -> dict[str, str]:
    with connect(address) as session:
        rows = session.execute("select relname, relreplident from pg_class where relnamespace = 'hr'::regnamespace")
        return {name: identity for name, identity in rows if name in ("staff", "keyed", "none", "by_index")}


def test_a_role_that_owns_nothing_can_follow_changes_after_set_up_and_nothing_is_left_after_removal(
    keyed: Address, role: str, execute: Execute
) -> None:
    before = identities(keyed)
    wanted = {keyed.database: WantedStream(STREAM, identity_full=["hr.staff", "hr.none", "hr.keyed"])}
    setup(keyed, role, streams=wanted)
    assert identities(keyed) == {"staff": "f", "keyed": "d", "none": "f", "by_index": "i"}
    assert grants.plan_setup(keyed, [keyed.database], role, streams=wanted).parts == ()
    execute(f"alter role {role} password 'p'")
    login = keyed.as_user(role, "p")
    with connect(login) as session:
        tables = read_catalog(session, read_tables(session), values=False).with_rows()
    state = open_stream(login, STREAM, tables)
    assert len(state.followed) == 4
    assert set(state.not_followed) == {"public.orders"}
    assert stream_left(keyed) == [STREAM]
    execute("alter table hr.none rename to renamed")
    remove(keyed, role)
    execute("alter table hr.renamed rename to none")
    assert (stream_left(keyed), identities(keyed), exists(keyed, role)) == ([], before, False)


def test_nobody_gets_another_replica_identity_without_consent(keyed: Address, role: str) -> None:
    before = identities(keyed)
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    assert identities(keyed) == before
    with pytest.raises(UsageError, match="matches no table"):
        grants.plan_setup(
            keyed, [keyed.database], role, streams={keyed.database: WantedStream(STREAM, identity_full=["x.*"])}
        )


def test_the_log_tells_of_definitions_only_with_consent_and_nothing_of_that_is_left(
    postgres: PostgresServer, keyed: Address, role: str, execute: Execute, tmp_path: Path
) -> None:
    def seen() -> tuple[bool, bool]:
        with connect(keyed) as session:
            return bool(ddl_triggers.trigger_version(session)), ddl_triggers.has_triggers(session)

    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    assert seen() == (False, False)
    wanted = {keyed.database: WantedStream(STREAM, definitions=True)}
    plan = grants.plan_setup(keyed, [keyed.database], role, streams=wanted)
    run_script(postgres, grants.script(plan), keyed, tmp_path)
    assert seen() == (True, True)
    assert grants.plan_setup(keyed, [keyed.database], role, streams=wanted).parts == ()
    execute("alter event trigger holdfast_dropped disable")
    assert seen() == (False, True)
    setup(keyed, role, streams=wanted)
    assert seen() == (True, True)
    execute("drop event trigger holdfast_dropped")
    remove(keyed, role)
    assert (seen(), stream_left(keyed), exists(keyed, role)) == ((False, False), [], False)


def test_an_identity_by_an_index_that_was_gone_does_not_come_back(keyed: Address, role: str, execute: Execute) -> None:
    execute("alter table hr.by_index drop constraint by_index_id_key")
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM, identity_full=["hr.by_index"])})
    assert identities(keyed)["by_index"] == "f"
    remove(keyed, role)
    assert identities(keyed)["by_index"] == "n"


def test_an_identity_that_somebody_changed_since_stays(keyed: Address, role: str, execute: Execute) -> None:
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM, identity_full=["hr.none"])})
    execute("alter table hr.none replica identity default")
    remove(keyed, role)
    assert identities(keyed)["none"] == "d"


def test_a_superuser_needs_no_rights_but_consent(keyed: Address) -> None:
    wanted = {keyed.database: WantedStream(STREAM, identity_full=["hr.none"])}
    plan = grants.plan_setup(keyed, [keyed.database], "postgres", streams=wanted)
    assert [change.why for part in plan.parts for change in part.changes] == [
        "keep whole old rows of hr.none in the log: it has no usable key",
        "publish the changes of the tables that are backed up",
        "what was given, for holdfast source remove",
    ]
    grants.run(keyed, plan)
    remove(keyed, "postgres")
    assert (stream_left(keyed), identities(keyed)["none"]) == ([], "n")


def test_a_stream_that_no_setup_has_made_goes_where_its_name_is_known(keyed: Address, role: str) -> None:
    with connect(keyed) as session:
        tables = read_catalog(session, read_tables(session), values=False).with_rows()
    open_stream(keyed, STREAM, tables)
    assert remove(keyed, role).parts == ()
    assert stream_left(keyed) == [STREAM]
    plan = grants.plan_remove(keyed, [keyed.database], role, streams={keyed.database: STREAM})
    grants.run(keyed, plan)
    assert stream_left(keyed) == []


def test_a_forged_name_of_a_stream_is_never_run(keyed: Address, role: str, execute: Execute) -> None:
    setup(keyed, role, streams={keyed.database: WantedStream(STREAM)})
    forged = '{"role": [], "databases": {"%s": {"stream x; drop table y": [], "identity of table 1; drop": []}}}'
    execute(f"comment on role {role} is '{MARK}{forged % keyed.database}'")
    assert "drop" not in grants.script(grants.plan_remove(keyed, [keyed.database], role))
