"""Databases of other encodings, locales and collations come back, into UTF-8 too, and into newer servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.servers.versions import need_locales

pytestmark = pytest.mark.service

LATIN1 = "encoding 'LATIN1' locale 'de_DE.ISO-8859-1' template template0"
TURKISH = "locale 'tr_TR.UTF-8' template template0"
JAPANESE = "encoding 'EUC_JP' locale 'C' template template0"
ICU = "locale_provider icu icu_locale 'tr-TR' locale 'tr_TR.UTF-8' template template0"

WORDS = """
create type "{0}x" as enum ('{0}', '{1}');
create table "{0}tabelle" (id int primary key, "{1}" text default '{0}', c char(5), v varchar(4), n name,
  "array" text[], kind "{0}x" default '{0}', document jsonb, unique ("{1}"));
insert into "{0}tabelle" values (1, '{0}', '{1}', '{0}{1}', '{0}', '{{{0},{1}}}', '{1}', '{{"{0}": "{1}"}}');
insert into "{0}tabelle" values (2, repeat('{1}', 2000)), (3, 'I'), (4, 'i');
create index on "{0}tabelle" (lower("{1}"));
create view "{1}sicht" as select "{1}" from "{0}tabelle" where "{1}" > '{0}';
create function "{1}funktion"() returns text language sql as $$ select '{0}'::text $$;
create schema "{0}schema";
create table "{0}schema"."{1}" as select lower('I') as "{0}";
create table parts (word text) partition by range (word);
create table parts_1 partition of parts for values from ('{0}') to (maxvalue);
insert into parts values ('{0}{1}');
comment on table parts is '{0}{1}';
"""


@pytest.fixture(autouse=True)
def locales() -> None:
    need_locales()


@pytest.mark.representatives("ICU")
@pytest.mark.parametrize(
    ("source", "target", "options", "words"),
    [
        pytest.param(15, 15, ICU, "ıß", id="ICU"),
        pytest.param(15, 18, LATIN1, "äß", id="Latin-1 to a newer server"),
        pytest.param(18, 18, LATIN1, "äß", id="Latin-1", marks=pytest.mark.exhaustive),
        pytest.param(18, 18, TURKISH, "ıİ", id="Turkish", marks=pytest.mark.exhaustive),
        pytest.param(18, 18, JAPANESE, "日本", id="Japanese"),
    ],
)
def test_a_database_of_another_encoding_or_locale_comes_back(
    source: int,
    target: int,
    options: str,
    words: str,
    create_on: Callable[..., Address],
    run_backup: RunJob,
    run_restore: RunJob,
) -> None:
    original = create_on(source, WORDS.format(*words), options=options)
    code, backup = run_backup(original)
    assert code == 0, backup.error
    utf8 = [""] if "encoding" in options and source == target else []
    for there in (options, *utf8):
        copy = create_on(target, options=there)
        code, restore = run_restore(copy)
        assert code == 0, restore.error
        assert hashes(copy) == hashes(original)
        if source == target:
            assert schema_of(copy) == schema_of(original)
        code, restore = run_restore(
            copy, "--tables", "public.*", "--map", "public=örtlich" if "ß" in words else "public=x"
        )
        assert code == 0, restore.error


def test_an_encoding_that_lacks_letters_is_refused(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    original = create_on(18, "create table things (id int)")
    assert run_backup(original)[0] == 0
    code, sentence = failed(run_restore(create_on(18, options=LATIN1)))
    assert code == 5
    assert "is encoded in LATIN1, the backup is of a UTF8 database: create the target with" in sentence


COLLATIONS = """
create collation german (provider = icu, locale = 'de-DE-u-co-phonebk');
create collation any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create collation libc_german (provider = libc, locale = 'de_DE.UTF-8');
create domain word as text collate any_case;
create table words (id int primary key, folded text collate any_case unique, phonebook text collate german,
  libc text collate libc_german, kind word, check (folded <> 'none' collate "tr-x-icu"));
insert into words values (1, 'Äpfel', 'Äpfel', 'Äpfel', 'A'), (2, 'apfel', 'Apfel', 'Apfel', 'a'),
  (3, 'Zebra', 'ß', 'ß', '');
create index on words (phonebook desc, libc, lower(kind) collate "en-x-icu");
create table parts (word text collate german) partition by range (word);
create table parts_1 partition of parts for values from ('Ä') to ('Zz');
insert into parts values ('Apfel'), ('Z');
"""


@pytest.mark.exhaustive
def test_collations_of_icu_and_of_the_system_come_back(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    original, copy = create_on(15, COLLATIONS), create_on(15)
    assert run_backup(original)[0] == 0
    code, restore = run_restore(copy)
    assert code == 0, restore.error
    assert hashes(copy) == hashes(original)
    assert schema_of(copy) == schema_of(original)
    with connect(copy) as session:
        ordered = session.execute("select string_agg(folded, ' ' order by phonebook, id) from public.words").fetchone()
        equal = session.execute("select count(*) from public.words where folded = 'ÄPFEL'").fetchone()
    assert ordered == ("Äpfel apfel Zebra",)
    assert equal == (1,)


@pytest.mark.exhaustive
def test_a_server_without_icu_is_told_which_collation_it_lacks(
    create_on: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    original = create_on(15, COLLATIONS)
    assert run_backup(original)[0] == 0
    code, sentence = failed(run_restore(create_on(18)))
    assert code == 5
    assert "ICU is not supported in this build" in sentence
