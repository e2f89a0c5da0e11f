"""Nothing that a server, a database, a role or the environment is set to changes what is kept, and what comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.jobs.inline_jobs import RunJob
from tests.support.servers.versions import need_locales

pytestmark = pytest.mark.service

SETTINGS = {
    "array_nulls": "off",
    "backslash_quote": "off",
    "bytea_output": "'escape'",
    "check_function_bodies": "on",
    "client_encoding": "'LATIN1'",
    "client_min_messages": "'error'",
    "datestyle": "'SQL, DMY'",
    "default_table_access_method": "'nowhere'",
    "default_tablespace": "'nowhere'",
    "default_text_search_config": "'german'",
    "default_toast_compression": "'pglz'",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_read_only": "on",
    "extra_float_digits": "-15",
    "idle_in_transaction_session_timeout": "'1s'",
    "intervalstyle": "'iso_8601'",
    "lc_monetary": "'de_DE.UTF-8'",
    "lc_numeric": "'de_DE.UTF-8'",
    "lock_timeout": "'1s'",
    "quote_all_identifiers": "on",
    "row_security": "on",
    "search_path": "pg_temp, nowhere",
    "session_replication_role": "'replica'",
    "standard_conforming_strings": "off",
    "statement_timeout": "'1s'",
    "timezone": "'Asia/Kathmandu'",
    "transform_null_equals": "on",
    "xmloption": "'document'",
}
ENVIRONMENT = {
    "PGCLIENTENCODING": "BIG5",
    "PGDATESTYLE": "German",
    "PGOPTIONS": "-c timezone=Asia/Tokyo -c quote_all_identifiers=on",
    "PGTZ": "Pacific/Auckland",
    "TZ": "America/New_York",
}

SCRIPT = r"""
set lc_monetary = 'de_DE.UTF-8';
create table things (
  id int primary key, day date, span interval, moment timestamptz default '2020-02-03 04:05+05', f float8, f4 float4,
  raw bytea default '\x00ff', price money default '1.234,56 €', word text default E'a\\b', words text[], kind regclass,
  check (word <> 'a\b''c'), check (price < '9.999,00 €'));
insert into things (id, day, span, moment, f, f4, raw, price, word, words, kind)
  select i, date '2026-02-03' + i, make_interval(1, 2, 3, 4, 5, 6, 7.5 + i), '2020-01-01 00:00:00.123456+00',
    1 / 3.0 + i, 1 / 3.0, '\x5c00ff27', 12.34, E'it''s \\ "ß' || i, array[null, 'NULL', '\', ''''], 'pg_class'
  from generate_series(1, 300) i;
create index on things (word);
create view "a view" as select day, date '2026-02-03' as other, interval '1 day 2 hours' as span, 1.1::float8 as f,
  E'a\\b' as word, timestamptz '2020-02-03 04:05+05' as moment from things
  where day > '2026-02-04' and (word = null) is null;
create function backslashes(a text default 'x\y') returns text language sql as $$ select 'a\b' || a $$;
create materialized view sums as select count(*) as n, sum(f) as f from things;
create table bounded (price money, moment timestamptz) partition by range (price, moment);
create table bounded_1 partition of bounded for values from ('1,50 €', '2020-02-03 04:05+05') to ('7,50 €', 'infinity');
insert into bounded values ('5,25 €', '2021-01-01');
comment on table things is E'a\\b''c';
"""
DEFAULTS = (
    "with made as (insert into things (id) values (-1) returning *) "
    "select price::numeric::text, extract(epoch from moment)::text, encode(raw, 'hex'), word from made"
)


@pytest.fixture(autouse=True)
def locales() -> None:
    need_locales()


def set_all(address: Address, settings: dict[str, str]) -> None:
    with connect(address) as session:
        session.execute(f"alter database {ident(address.database)} reset all".encode())
        for name, value in settings.items():
            session.execute(f"alter database {ident(address.database)} set {name} = {value}".encode())


@pytest.mark.representatives("15-18")
@pytest.mark.parametrize(("source", "target"), [(15, 15), (18, 18), (15, 18)])
def test_settings_of_databases_and_of_the_environment_change_nothing(
    source: int,
    target: int,
    create_on: Callable[..., Address],
    run_backup: RunJob,
    run_restore: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, copy = create_on(source, SCRIPT), create_on(target)
    expected = hashes(original)
    for address in (original, copy):
        set_all(address, SETTINGS)
    with monkeypatch.context() as environment:
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        code, backup = run_backup(original)
        assert backup.result is not None, backup.error
        assert (code, backup.result["not_included"]) == (0, [])
        code, restore = run_restore(copy)
        assert code == 0, restore.error
        code, restore = run_restore(copy, "--map", "public=other")
        assert code == 0, restore.error
        found = hashes(copy)
    for address in (original, copy):
        set_all(address, {})
    assert found == {f"{schema}.{name}": expected[f"public.{name}"] for schema in ("public", "other")
                     for name in ("things", "bounded_1")}  # fmt: skip
    defaults = []
    for address in (original, copy):
        with connect(address) as session, session.transaction(force_rollback=True):
            session.execute("set search_path = public")
            defaults.append(session.execute(DEFAULTS).fetchall())
    assert defaults[0] == defaults[1] == [("1234.56", "1580684700.000000", "00ff", r"a\b")]
    if source == target:
        with connect(copy) as session:
            session.execute("drop schema other cascade")
        assert schema_of(copy) == schema_of(original)


@pytest.mark.exhaustive
def test_a_value_that_an_environment_could_not_write_is_kept(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = "encoding 'LATIN1' locale 'de_DE.ISO-8859-1' template template0"
    original = create_on(
        18, "create table größe (id int, straße text); insert into größe values (1, 'ß')", options=latin
    )
    copy = create_on(18, options=latin)
    for encoding in ("EUC_JP", "SQL_ASCII", "nonsense"):
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
        assert run_backup(original)[0] == 0
    assert run_restore(copy)[0] == 0
    assert hashes(copy) == hashes(original)
