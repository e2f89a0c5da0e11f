"""What is set on a database itself: as it is read, and as statements that set the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.catalog.database_settings import (
    DatabaseGrant,
    DatabaseSetting,
    DatabaseSettings,
    for_superusers,
    read_database_settings,
    trusted_only,
)
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect

pytestmark = pytest.mark.service


def test_a_new_database_has_none(new_database: Callable[..., Address]) -> None:
    address = new_database()
    with connect(address) as session:
        assert read_database_settings(session) == DatabaseSettings()
        session.execute(f"revoke temporary on database {address.database} from public".encode())
        session.execute(f"grant temporary on database {address.database} to public".encode())
        assert read_database_settings(session) == DatabaseSettings()
    assert DatabaseSettings().statements("shop") == ()


def test_what_is_read_is_set_by_its_statements(new_database: Callable[..., Address]) -> None:
    recorded = DatabaseSettings(
        settings=(
            DatabaseSetting(role="", text='search_path=app, "a ""b", public'),
            DatabaseSetting(role="", text="my.own=it's \\\\ here"),
            DatabaseSetting(role="", text='temp_tablespaces=""'),
        ),
        grants=(DatabaseGrant(role="", privilege="CONNECT"), DatabaseGrant(role="", privilege="CREATE")),
        comment="it's",
        connection_limit=7,
    )
    address = new_database()
    with connect(address) as session:
        for each in recorded.statements(address.database):
            session.execute(each.sql.encode())
        found = read_database_settings(session)
    assert set(found.settings) == set(recorded.settings)
    assert found.model_copy(update={"settings": recorded.settings}) == recorded


def test_no_word_of_an_archive_is_sql() -> None:
    hostile = "CONNECT ON DATABASE x TO y; ALTER ROLE y SUPERUSER; --"
    recorded = DatabaseSettings(
        settings=(DatabaseSetting(role='a"; --', text="x\" to 'y'; --=it's"),),
        grants=(DatabaseGrant(role="", privilege="CONNECT"), DatabaseGrant(role="y", privilege=hostile)),
        comment="'; drop",
    )
    made = recorded.statements('s"')
    assert [each.sql for each in made] == [
        'ALTER ROLE "a""; --" IN DATABASE "s""" SET "x"" to \'y\'; --" TO \'it\'\'s\'',
        'REVOKE TEMPORARY ON DATABASE "s""" FROM PUBLIC',
        "COMMENT ON DATABASE \"s\"\"\" IS '''; drop'",
    ]
    assert made[0].undo == 'ALTER ROLE "a""; --" IN DATABASE "s""" RESET "x"" to \'y\'; --"'


def test_what_applications_keep_in_settings_of_their_own_is_never_shown() -> None:
    texts = ("app.secret=s3cret", "work_mem=8MB")
    recorded = DatabaseSettings(settings=tuple(DatabaseSetting(role="", text=text) for text in texts))
    shown = [each.shown for each in recorded.statements("shop")]
    assert shown == ["", 'ALTER DATABASE "shop" SET "work_mem" TO \'8MB\';']


def test_settings_of_users_are_no_superusers_unless_they_load_code(address: Address) -> None:
    names = {"work_mem", "DateStyle", "log_statement", "session_preload_libraries", "local_preload_libraries", "x.y"}
    with connect(address) as session:
        assert for_superusers(session, names) == names - {"work_mem", "DateStyle"}
        assert trusted_only(session, DatabaseSettings()) == ""
