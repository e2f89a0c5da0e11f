"""Whatever things are called, they come back: whole, chosen by globs, and under other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident, literal
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

NAMES = (
    'quo"te', "apo'strophe", "sp ace", " leading", "trailing ", "Ünïcödé 日本 😀", "e\u0301", "\u200b", "select",
    "table", "user", "null", "rows", "a" * 63, "ü" * 31, "per%cent", "%s", "%(x)s", "%%", "back\\slash", "\\.",
    "new\nline", "tab\tbed", "re\rturn", "dol$lar", "$$", "do.t", "eq=ual", "semi;colon", "--comment", "/*", "*/",
    "br[ack]et", "st*r", "qu?", "{0}", "1digit", "@at", "(par)", "/slash", "UPPER", '"', "'", "'||", ":variable",
    "x__exact", "-- TOC entry 1 (class 1 OID 1)",
)  # fmt: skip


def with_prefix(letter: str, name: str) -> str:
    """Return another name like this one, as long as PostgreSQL keeps names."""
    return letter + (name if len(name.encode()) < 63 else name[1:])


def script(name: str) -> Iterator[str]:
    """Yield statements that call one thing of each kind by the name."""
    schema, text = ident(name), literal(name)
    table, word, index, view = (ident(with_prefix(letter, name)) for letter in "twiv")
    yield f"create schema {schema}"
    yield f"create type {schema}.{schema} as enum ({text}, 'other')"
    yield (
        f"create table {schema}.{table} ({schema} int primary key, {word} text default {text}, "
        f"kind {schema}.{schema} default {text}, number serial)"
    )
    yield f"insert into {schema}.{table} values (1, {text}, {text}), (2, null, 'other')"
    yield f"create index {index} on {schema}.{table} ({word})"
    yield (
        f"create function {schema}.{schema}({schema} {schema}.{schema}) returns text language sql "
        f"as $body$ select {text}::text $body$"
    )
    yield f"create view {schema}.{view} as select {schema}, kind from {schema}.{table} where kind <> 'other'"
    yield f"comment on table {schema}.{table} is {text}"


def as_glob(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_things_may_be_called_anything(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    original = create_on(18, *(statement for name in NAMES for statement in script(name)))
    expected = hashes(original)
    assert len(expected) == len(NAMES)
    code, backup = run_backup(original)
    assert code == 0, backup.error

    whole = create_on(18)
    code, restore = run_restore(whole)
    assert code == 0, restore.error
    assert hashes(whole) == expected
    assert schema_of(whole) == schema_of(original)

    places = [(name, with_prefix("t", name)) for name in NAMES]
    globs = [f"--tables={as_glob(schema)}.{as_glob(table)}" for schema, table in places]
    schemas = [f"--map={quoted(name)}={quoted(with_prefix('s', name))}" for name in NAMES]
    code, restore = run_restore(whole, *globs, *schemas)
    assert code == 0, restore.error
    moved = {f"{with_prefix('s', schema)}.{table}": expected[f"{schema}.{table}"] for schema, table in places}
    assert hashes(whole) == expected | moved

    tables = [
        f"--map={quoted(schema)}.{quoted(table)}=all.{quoted(with_prefix('r', schema))}" for schema, table in places
    ]
    code, restore = run_restore(whole, *globs, *tables)
    assert code == 0, restore.error
    renamed = {f"all.{with_prefix('r', schema)}": expected[f"{schema}.{table}"] for schema, table in places}
    assert hashes(whole) == expected | moved | renamed


@pytest.mark.representatives('we\'ird "n%ame" /+@:?&')
@pytest.mark.parametrize("name", ['we\'ird "n%ame" /+@:?&', "new\nline", "ü" * 31])
def test_databases_and_roles_may_be_called_anything(
    name: str,
    plain_postgres: PostgresServer,
    create_on: Callable[..., Address],
    run_backup: RunJob,
    run_restore: RunJob,
) -> None:
    role, password = with_prefix("r", name), "p@ss w%rd+/:?"
    original = create_on(18, f"create role {ident(role)} superuser login password '{password}'", name=name)
    copy = create_on(18, name=with_prefix("c", name))
    with connect(original) as session:
        session.execute(f"create table public.things (id int); alter table public.things owner to {ident(role)}")

    def login(database: str) -> Address:
        who = f"{quote(role, safe='')}:{quote(password, safe='')}"
        return Address.parse(f"postgresql://{who}@127.0.0.1:{plain_postgres.port}/{quote(database, safe='')}")

    code, backup = run_backup(login(name))
    assert code == 0, backup.error
    code, restore = run_restore(login(with_prefix("c", name)))
    assert code == 0, restore.error
    assert schema_of(copy) == schema_of(original)
