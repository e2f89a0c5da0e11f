"""The newest record of each archive, of the events that tasks have told."""

from __future__ import annotations

import pytest

from holdfast_airflow.assets import backups_of, record_of
from holdfast_airflow.page.overview import KeptRecord, newest_records, recorded_archives
from tests.support.airflow.database import NOON, AirflowRows


def told(number: int) -> dict[str, object]:
    return {"archive": "id", "sources": [], "commits": number}


@pytest.fixture
def records(airflow: AirflowRows) -> dict[str, int]:
    """Ids of the assets of two archives' records, beside other assets."""
    for uri in (backups_of("shop").uri, backups_of("record").uri, "s3://shop/record"):
        airflow.asset(uri)
    return {name: airflow.asset(record_of(name).uri) for name in ("shop", "books")}


def test_archives_are_known_by_the_addresses_of_their_records(airflow: AirflowRows, records: dict[str, int]) -> None:
    assert recorded_archives(airflow.session) == records


def test_the_newest_event_of_each_is_its_record(airflow: AirflowRows, records: dict[str, int]) -> None:
    for number in (3, 1, 2):
        airflow.event(records["shop"], told(number), hours=number)
    airflow.event(records["books"], told(7), hours=-5)
    found = newest_records(airflow.session, records)
    assert found["shop"] == KeptRecord(NOON.replace(hour=15), told(3))
    assert found["books"].content["commits"] == 7
    assert set(newest_records(airflow.session, {"books": records["books"]})) == {"books"}
    assert newest_records(airflow.session, {}) == {}


@pytest.mark.parametrize("empty", [{}, None, {"by": "hand"}, {"sources": []}])
def test_events_without_a_record_are_passed_over(
    airflow: AirflowRows, records: dict[str, int], empty: dict[str, object] | None
) -> None:
    airflow.event(records["shop"], told(1), hours=1)
    airflow.event(records["shop"], told(2), hours=2)
    for hours in range(3, 21):
        airflow.event(records["shop"], empty, hours=hours)
    assert newest_records(airflow.session, records)["shop"].content["commits"] == 2
    for hours in range(21, 24):
        airflow.event(records["shop"], empty, hours=hours)
    assert newest_records(airflow.session, records) == {}  # it is too long ago to be looked for
