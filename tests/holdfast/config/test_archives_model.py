"""What archives.yaml means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.common.errors import UsageError
from holdfast.common.units import parse_size
from holdfast.common.words import nearest
from holdfast.config.archives_model import (
    AirflowDeadlines,
    ArchiveConfig,
    Label,
    ScheduleConfig,
    Section,
    ShortSpan,
    Span,
    TimeZone,
)
from holdfast.config.archives_yaml import find_archive
from tests.support.configuration import load_config

FULL = """
archives:
  shop:
    url: s3://backups/shop
    sources: {shop_db: {connection: shop_postgres, tables: ["sales.*"], exclude: ["sales.tmp_*"]}}
    schedule: {full: "@weekly", changes: "*/15 * * * *", compaction: "@daily", truncation: "@daily", vacuum: "@daily"}
    keep: {last: 2, hourly: 48, daily: 14, weekly: 8, monthly: 12, within: 7d}
    compaction: {min_blocks: 4, small: 10 MB}
    verification: {deep_within: 10d, budget: 2h}
    vacuum: {grace: 48h}
  copies:
    replicas: {near: s3://a/shop, far: s3://b/shop}
    quorum: 2
"""


def test_whole_example_is_read(file: Path) -> None:
    file.write_text(FULL)
    config = load_config(file)
    shop = config.archive("shop")
    assert shop.location() == "s3://backups/shop"
    name, source = shop.source(None)
    assert (name, source.connection, source.tables, source.exclude) == (
        "shop_db",
        "shop_postgres",
        ["sales.*"],
        ["sales.tmp_*"],
    )
    assert (shop.schedule.full, shop.schedule.drill, shop.keep.hourly) == ("@weekly", None, 48)
    assert shop.spark_connection == "spark_default"
    assert (shop.schedule.vacuum, shop.keep.within, shop.vacuum.grace) == ("@daily", "7d", "48h")
    assert (shop.compaction.min_blocks, shop.compaction.small, shop.compaction.target) == (4, "10 MB", "512 MiB")
    assert (shop.verification.deep_within, shop.verification.budget) == ("10d", "2h")
    assert config.archive("copies").quorum == 2


def test_archive_cannot_be_changed() -> None:
    archive = ArchiveConfig(url="s3://b/p")
    with pytest.raises(ValidationError):
        archive.url = "other"


def test_archive_is_found_by_name_or_by_url(nowhere: Path) -> None:
    (nowhere / "archives.yaml").write_text("archives: {shop: {url: s3://b/shop}}")
    assert find_archive("shop").url == "s3://b/shop"
    assert find_archive("s3://b/other").url == "s3://b/other"
    assert find_archive("/srv/archive").url == "/srv/archive"
    with pytest.raises(UsageError, match="did you mean 'shop'"):
        find_archive("shopp")


def test_source_must_be_named_where_there_are_several(file: Path) -> None:
    file.write_text("archives: {shop: {url: x, sources: {a: {connection: a}, b: {connection: b}}}}")
    shop = load_config(file).archive("shop")
    with pytest.raises(UsageError, match="say which source; this archive has: a, b"):
        shop.source(None)
    with pytest.raises(UsageError, match=r"no source 'c' in this archive \(it has: a, b\)"):
        shop.source("c")


def test_where_no_replica_is_named_the_first_one_is_meant() -> None:
    archive = ArchiveConfig(replicas={"near": "s3://a/x", "far": "s3://b/x"})
    assert archive.location() == "s3://a/x"
    assert archive.location("far") == "s3://b/x"
    with pytest.raises(UsageError, match=r"no replica 'fra' of this archive \(it has: near, far\); did you mean 'far'"):
        archive.location("fra")
    with pytest.raises(UsageError, match=r"no replica 'near' of this archive \(it has: none\)"):
        ArchiveConfig(url="s3://a/x").location("near")


def test_a_source_is_warned_of_ten_gibibytes_of_log_where_nothing_is_said(file: Path) -> None:
    file.write_text("archives: {a: {url: u, sources: {s: {url: 'postgresql://h/d'}}}}")
    assert parse_size(load_config(file).archive("a").source(None)[1].max_retained_wal) == 10 << 30


def test_what_a_drill_must_find_is_of_one_source(file: Path) -> None:
    file.write_text("archives: {a: {url: u, sources: {s: {connection: s}}, drill: {assertions: [select true]}}}")
    assert load_config(file).archive("a").drill.of("s") == ["select true"]
    two = "archives: {a: {url: u, sources: {s: {connection: s}, t: {connection: t}}, drill: {assertions: [x], %s}}}"
    file.write_text(two % "source: t")
    drill = load_config(file).archive("a").drill
    assert (drill.of("s"), drill.of("t")) == ([], ["x"])
    for words, sentence in (("", "'drill.assertions' needs 'drill.source'"), ("source: u", "names none of")):
        file.write_text(two % words)
        with pytest.raises(UsageError, match=sentence):
            load_config(file)


def test_where_a_key_is_may_be_said_but_never_the_key(file: Path) -> None:
    file.write_text("archives: {a: {url: u, encryption: {key: 'file:/etc/key'}}, b: {url: u}}")
    assert (load_config(file).archive("a").key, load_config(file).archive("b").key) == ("file:/etc/key", None)
    file.write_text("archives: {a: {url: u, encryption: {key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}}}")
    with pytest.raises(UsageError, match=r"encryption.key: write file:/path, env:VARIABLE, command:WORDS") as refused:
        load_config(file)
    assert "AAEC" not in str(refused.value)


def test_who_is_told_of_failures_is_read(tmp_path: Path) -> None:
    file = tmp_path / "archives.yaml"
    file.write_text("archives: {shop: {url: /a, alerts: [{notifier: my.alerts.Pager, arguments: {to: '{{ x }}'}}]}}")
    (alert,) = load_config(file).archives["shop"].alerts
    assert (alert.notifier, alert.arguments) == ("my.alerts.Pager", {"to": "{{ x }}"})
    file.write_text("archives: {shop: {url: /a, alerts: [{notifier: pager}]}}")
    with pytest.raises(UsageError, match=r"write a class with its module, such as airflow\.providers\.smtp"):
        load_config(file)


def test_an_archive_says_whose_its_tasks_are_where_they_run_and_by_when(file: Path) -> None:
    file.write_text(
        "archives: {shop: {url: x, owner: data platform, pool: backups, queue: spark, timezone: Europe/Berlin, "
        "deadline: {full: 6h, changes: 10 min}}, plain: {url: y}}"
    )
    config = load_config(file)
    shop, plain = config.archive("shop"), config.archive("plain")
    assert (shop.owner, shop.pool, shop.queue, shop.timezone) == ("data platform", "backups", "spark", "Europe/Berlin")
    assert shop.deadline.model_dump(exclude_none=True) == {"full": "6h", "changes": "10 min"}
    assert (plain.owner, plain.pool, plain.queue, plain.timezone) == (None, None, None, "UTC")
    assert plain.deadline.model_dump(exclude_none=True) == {}


class Shop(Section):
    """A section."""

    opens: int = 8
    closes: int = 18
    name: str | None = None


def test_a_section_is_read_and_not_changed_any_more() -> None:
    shop = Shop.model_validate({"opens": 9})
    assert (shop.opens, shop.closes, shop.name) == (9, 18, None)
    with pytest.raises(ValidationError, match="frozen"):
        shop.opens = 10


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"open": 9}, "unknown key 'open'; did you mean 'opens'?"),
        ({"clsoes": 9, "opens": 9}, "unknown key 'clsoes'; did you mean 'closes'?"),
        ({"zzz": 9}, "unknown key 'zzz'; known: opens, closes, name"),
        ({3: 9}, "unknown key '3'; known: opens, closes, name"),
        ({None: 9}, "unknown key 'None'"),
    ],
)
def test_an_unknown_key_is_named_with_what_was_meant(given: dict[Any, int], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Shop.model_validate(given)
    (error,) = refused.value.errors()
    assert error["msg"].startswith(said)


@pytest.mark.parametrize("given", [{"opens": "9"}, {"opens": 9.0}, {"opens": True}, {"name": 3}, 3, None, [], "opens"])
def test_values_of_another_type_are_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Shop.model_validate(given)


@pytest.mark.parametrize(
    ("name", "said"), [("shp", "; did you mean 'shop'?"), ("shop", "; did you mean 'shop'?"), ("x", ""), ("", "")]
)
def test_the_nearest_known_name_is_asked_for(name: str, said: str) -> None:
    assert nearest(name, ["shop", "crm"]) == said
    assert nearest(name, []) == ""


@pytest.mark.parametrize(
    ("text", "short"),
    [("15m", "15min"), ("1.5 m", "1.5 min"), ("15min", "15min"), ("30s", "30s"), ("2 h", "2 h"), ("7d", "7d")],
)
def test_minutes_may_be_written_short_where_nobody_counts_months(text: str, short: str) -> None:
    assert TypeAdapter(ShortSpan).validate_python(text) == short
    if text == short:
        assert TypeAdapter(Span).validate_python(text) == text
    else:
        with pytest.raises(ValidationError):
            TypeAdapter(Span).validate_python(text)


@pytest.mark.parametrize("text", ["", "15", "m", "soon", "-1h", "1h 5m", "1y", "1M"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    for kind in (Span, ShortSpan):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(text)


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
