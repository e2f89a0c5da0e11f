"""The last moment that has a table which was dropped."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.common.lsn import show_position
from holdfast.point_in_time.dropped_tables import dropped_before, with_last_moment
from holdfast.point_in_time.target_contents import catalog_reader
from tests.support.archives.evolving import Evolving, catalog, changed, table

ONE, TWO = table(1), table(2)


def dropping(*records: Any, tells: bool = False, **more: Any) -> Evolving:
    """Drop a table between 0x100 and 0x300."""
    made = Evolving(tells=tells)
    made.full(0x100, catalog(ONE, TWO))
    placed = made.changes(0x300, catalog(TWO), *records, **more)
    assert placed.head.stream is not None
    return made


def last_moments(made: Evolving, position: int = 0x300, label: str = "shop.t1") -> list[str]:
    moment = made.moment(position)
    read = catalog_reader(made.store)
    return [str(each) for each in dropped_before(read, moment, catalog(TWO), label.__eq__)]


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks of changes tell that table 1 was dropped."""
    plain = Evolving._stream

    def told(self: Evolving, **more: Any) -> Any:
        return plain(self, **more).model_copy(update={"dropped": () if more.get("opened") else (1,)})

    monkeypatch.setattr(Evolving, "_stream", told)


@pytest.mark.usefixtures("gone")
def test_it_is_the_backup_before_where_nothing_was_changed_since() -> None:
    (said,) = last_moments(dropping())
    assert said == "shop.t1 was dropped before that; the last moment that has it is --at commit:1"


@pytest.mark.usefixtures("gone")
def test_it_is_behind_the_last_change() -> None:
    (said,) = last_moments(dropping(changed(ONE, 0x150, 0x180, rows=2)))
    assert said.endswith(f"--at lsn:{show_position(0x181)} --schema earlier")


@pytest.mark.usefixtures("gone")
def test_it_is_the_first_change_of_definitions_where_the_log_tells_of_these() -> None:
    (said,) = last_moments(dropping(changed(ONE, 0x150), tells=True, defined=("0/190", "0/200")))
    assert said.endswith("--at lsn:0/190")


@pytest.mark.usefixtures("gone")
def test_a_table_that_is_there_or_is_not_meant_or_went_later_is_not_named() -> None:
    made = dropping()
    assert last_moments(made, label="shop.t2") == []
    assert last_moments(made, 0x100) == []


@pytest.mark.usefixtures("gone")
def test_an_error_says_it_and_what_is_not_known_of_the_schema() -> None:
    made = dropping()
    moment = made.moment(0x200)
    read = catalog_reader(made.store)
    error = with_last_moment(read, moment, catalog(TWO), UsageError("no such table"), "shop.t1".__eq__)
    assert str(error).startswith(
        "no such table; shop.t1 was dropped before that; the last moment that has it is --at commit:1; "
    )
    assert str(error).endswith(moment.approximate)
    asked = with_last_moment(read, moment, catalog(TWO), UsageError("did you mean shop.t2?"), "shop.t1".__eq__)
    assert str(asked).startswith("did you mean shop.t2? shop.t1 was dropped")
