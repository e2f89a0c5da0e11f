from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.value_settings import KeptSettings
from holdfast.postgresql.snapshot.snapshot import hold_snapshot, open_snapshot
from holdfast.postgresql.snapshot.table_reader import open_reader

pytestmark = pytest.mark.service


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("set search_path = evil", "search_path is 'evil' and was ''"),
        ("set row_security = on", "row_security is 'on' and was 'off'"),
        ("set datestyle = 'SQL'", "datestyle is 'SQL, MDY' and was 'ISO, MDY'"),
        ("set role pg_monitor", "current_user is 'pg_monitor' and was 'postgres'; role is 'pg_monitor' and was 'none'"),
        ("set application_name = 'a row that was read'", "application_name is 'a row that was read' and was"),
    ],
)
def test_each_setting_that_is_another_one_is_named(address: Address, statement: str, said: str) -> None:
    with connect(address) as session:
        settings = KeptSettings(session)
        settings.check()
        session.execute(statement.encode())
        with pytest.raises(RefusedError, match=said):
            settings.check()


def test_what_a_reader_read_is_refused_where_its_settings_are_others_at_the_end(address: Address) -> None:
    change = b"select pg_catalog.set_config('search_path', 'evil', false)"
    with hold_snapshot(address) as held:
        with (
            pytest.raises(RefusedError, match="search_path is 'evil'"),
            open_reader(address, held.snapshot, []) as reader,
        ):
            reader._session.execute(change)
        with pytest.raises(RefusedError, match="search_path is 'evil'"), open_snapshot(address, held.snapshot) as seen:
            seen.session.execute(change)
