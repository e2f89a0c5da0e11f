"""Backups of each PostgreSQL version come back in the same one and in newer ones; older ones refuse them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.support.databases import every_object
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

ALONE = """
select 'sequence ' || format('%I.%I', schemaname, sequencename) || ' ' || coalesce(last_value::text, 'new')
  from pg_sequences
union all select 'materialised view ' || matviewname || ' ' || ispopulated from pg_matviews
union all select 'sum ' || total from public."a first one"
union all select 'rows of parent ' || count(*) from only public.parent
union all select 'rows with children ' || count(*) from public.parent
order by 1
"""
"""What neither a dump of the schema nor the tables' hashes tell."""

LARGE_OBJECT = """
select lo_from_bytea(4242, decode(repeat('00ff', 3000), 'hex'));
grant select on large object 4242 to torture_reader;
"""


@pytest.mark.usefixtures("archive_key")
@pytest.mark.representatives("14 to 14 and 18", "18 to 18")
@pytest.mark.parametrize(
    ("source", "targets", "extensions"),
    [
        pytest.param(14, (14, 18), True, id="14 to 14 and 18"),
        pytest.param(15, (15,), True, id="15 to 15"),
        pytest.param(16, (17,), False, id="16 to 17"),
        pytest.param(17, (18,), True, id="17 to 18"),
        pytest.param(15, (18,), True, id="15 to 18"),
        pytest.param(16, (16, 18), False, id="16 to 16 and 18"),
        pytest.param(17, (17,), True, id="17 to 17"),
        pytest.param(18, (18,), True, id="18 to 18"),
    ],
)
def test_every_object_and_every_row_comes_back(
    source: int,
    targets: tuple[int, ...],
    extensions: bool,
    server_of: Callable[[int], PostgresServer],
    create_on: Callable[..., Address],
    run_backup: RunJob,
    run_restore: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for major in (source, *targets):
        server = server_of(major)
        every_object.create_roles(Address(server.url(), server.password))
    original = create_on(source, *every_object.parts(source * 10000, extensions=extensions), LARGE_OBJECT)
    code, backup = run_backup(original)
    assert backup.result is not None, backup.error
    assert (code, backup.result["whole"]) == (0, True)
    rows = hashes(original)
    for major in reversed(targets):
        target = create_on(major)
        code, restore = run_restore(target)
        assert restore.result is not None, restore.error
        assert (code, restore.result["equal"]) == (0, True)
        assert restore.result["rows"] == backup.result["rows"] > 2000
        assert hashes(target) == rows
        if major == source:
            assert schema_of(target) == schema_of(original)
            assert alone(target) == alone(original)


def alone(address: Address) -> list[str]:
    with connect(address) as session:
        return [row[0] for row in session.execute(ALONE)]


def test_an_older_server_is_refused_before_anything_is_made(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    assert run_backup(create_on(18, "create table things (id int)"))[0] == 0
    there = create_on(14)
    empty = schema_of(there)
    for wish in ((), ("--tables", "public.things"), ("--map", "public=other")):
        code, sentence = failed(run_restore(there, *wish))
        assert code == 5
        assert "is PostgreSQL 14; the backup is of 18, whose schema an older server does not" in sentence
    assert schema_of(there) == empty
