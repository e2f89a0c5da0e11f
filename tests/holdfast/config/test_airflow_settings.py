"""What archives.yaml says of an archive's tasks in Airflow."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.config.archives_model import AirflowDeadlines, ArchiveConfig, Label, ScheduleConfig, TimeZone


@pytest.mark.parametrize("name", ["a", "data platform", "team:blue/eu", "ä", "x" * 250])
def test_a_label_is_a_name_in_airflow(name: str) -> None:
    assert TypeAdapter(Label).validate_python(name) == name


@pytest.mark.parametrize("name", ["", " a", "a ", "a,b", ",", "a\nb", "a\n", "a\0b", "x" * 251])
def test_what_airflow_would_cut_or_take_for_several_names_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Label).validate_python(name)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
def test_a_time_zone_is_one_of_the_iana_database(name: str) -> None:
    assert TypeAdapter(TimeZone).validate_python(name) == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Europe/Berln", "there is no such time zone; did you mean 'Europe/Berlin'?"),
        ("0", "there is no such time zone: write one such as Europe/Berlin"),
        ("../etc/passwd", "there is no such time zone"),
        ("Europe", "there is no such time zone"),
        ("", "there is no such time zone"),
        ("a\0b", "there is no such time zone"),
    ],
)
def test_another_is_refused_with_the_one_that_was_meant(name: str, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(TimeZone).validate_python(name)
    assert refused.value.errors()[0]["msg"].startswith(said)


def test_a_machine_that_knows_no_time_zone_takes_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.config.archives_model.available_timezones", set)
    assert ArchiveConfig(url="x", timezone="Mars/Olympus").timezone == "Mars/Olympus"


def test_deadlines_are_those_of_the_operations_with_a_schedule() -> None:
    assert set(AirflowDeadlines.model_fields) == set(ScheduleConfig.model_fields)


@pytest.mark.parametrize("name", AirflowDeadlines.model_fields)
def test_a_deadline_is_a_length_of_time_or_none(name: str) -> None:
    assert getattr(AirflowDeadlines(), name) is None
    assert getattr(AirflowDeadlines.model_validate({name: "2h"}), name) == "2h"
    with pytest.raises(ValidationError):
        AirflowDeadlines.model_validate({name: "by noon"})
