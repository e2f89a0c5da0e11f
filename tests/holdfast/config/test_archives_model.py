"""archives.yaml: what it means, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.common.errors import UsageError
from holdfast.common.units import parse_bandwidth, parse_size
from holdfast.config.archives_model import ArchiveConfig
from holdfast.config.archives_yaml import find_archive, find_config, load_config

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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "archives.yaml"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and AIRFLOW_HOME, and no file named by the environment."""
    monkeypatch.delenv("HOLDFAST_ARCHIVES", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_whole_example_is_read(file: Path) -> None:
    file.write_text(FULL)
    config = load_config(file)
    shop = config.archive("shop")
    assert shop.place() == "s3://backups/shop"
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


def test_relative_folder_starts_at_the_file(file: Path, tmp_path: Path) -> None:
    file.write_text("archives: {shop: {url: kept/shop}, far: {replicas: {a: one, b: s3://b/two}}}")
    config = load_config(file)
    assert config.archive("shop").url == str(tmp_path / "kept/shop")
    assert config.archive("far").replicas == {"a": str(tmp_path / "one"), "b": "s3://b/two"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:///kept/log.db", "sqlite:///{folder}/kept/log.db"),
        ("sqlite:////srv/log.db", "sqlite:////srv/log.db"),
        ("postgresql://holdfast@db/log", "postgresql://holdfast@db/log"),
    ],
)
def test_coordination_store_in_a_relative_file_starts_at_the_file(
    file: Path, tmp_path: Path, written: str, meant: str
) -> None:
    file.write_text(f"archives: {{shop: {{replicas: {{a: one, b: two}}, store: '{written}'}}}}")
    assert load_config(file).archive("shop").store == meant.format(folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("archive: {}", "the file: unknown key 'archive'; did you mean 'archives'?"),
        (
            "archives: {shop: {url: x, sources: {db: {conection: y}}}}",
            "archives.shop.sources.db: unknown key 'conection'; did you mean 'connection'?",
        ),
        (
            "archives: {shop: {url: x, keep: {q: 1}}}",
            "archives.shop.keep: unknown key 'q'; known: last, hourly, daily, weekly, monthly, yearly, within",
        ),
        ("archives: 3", "archives: write a block of 'key: value' lines here, not 3"),
        ("archives: {shop: {}}", "archives.shop: an archive needs either 'url' or 'replicas'"),
        (
            "archives: {shop: {url: x, replicas: {a: b, c: d}}}",
            "archives.shop: an archive needs either 'url' or 'replicas'",
        ),
        (
            "archives: {shop: {replicas: {a: b}}}",
            "archives.shop: 'replicas' needs two or more; for one place write 'url'",
        ),
        (
            "archives: {shop: {url: x, store: 'sqlite:///log.db'}}",
            "archives.shop: 'store' is for archives with 'replicas'; this one has a 'url' only",
        ),
        (
            "archives: {shop: {replicas: {a: b, c: d}, store: 'postgresql://me:secret@db/log'}}",
            "archives.shop.store: a URL here may not hold a password: keep it in Airflow's connection, PGPASSWORD or "
            "the cloud's variables",
        ),
        (
            "archives: {shop: {replicas: {a: b, c: d}, quorum: 3}}",
            "archives.shop: 'quorum' is larger than the number of 'replicas'",
        ),
        (
            "archives: {shop: {url: x, consistency: strict}}",
            "archives.shop.consistency: input should be 'eventual' or 'sequential' (it says 'strict')",
        ),
        (
            "archives: {'a/b': {url: x}}",
            "archives.a/b: 'a/b' does not fit: use letters, digits, '_', '.' and '-', at most 64, beginning with a "
            "letter or digit",
        ),
        (
            "archives: {shop: {url: x, keep: {last: 0}}}",
            "archives.shop.keep.last: input should be greater than or equal to 1 (it says 0)",
        ),
        (
            "archives: {shop: {url: x, keep: {within: soon}}}",
            "archives.shop.keep.within: 'soon' does not fit: write a number and h, d, w, m or y, such as 7d",
        ),
        (
            "archives: {shop: {url: x, schedule: {truncation: '@daily'}}}",
            "archives.shop: 'schedule.truncation' needs rules in 'keep', such as daily: 14",
        ),
        (
            "archives: {shop: {url: x, compaction: {smal: 1 MB}}}",
            "archives.shop.compaction: unknown key 'smal'; did you mean 'small'?",
        ),
        (
            "archives: {shop: {url: x, compaction: {small: 64}}}",
            "archives.shop.compaction.small: input should be a valid string (it says 64)",
        ),
        (
            "archives: {shop: {url: x, vacuum: {grace: 1 day}}}",
            "archives.shop.vacuum.grace: '1 day' does not fit: write a number and s, min, h, d or w, such as 24h or "
            "30d",
        ),
        (
            "archives: {shop: {url: x, verification: {budget: all}}}",
            "archives.shop.verification.budget: 'all' does not fit: write bytes with a unit, such as 100 GB, or a "
            "length of time, such as 2h",
        ),
        (
            "archives: {shop: {url: x, sources: {db: {tables: ['*.*']}}}}",
            "archives.shop.sources.db: a source needs 'connection' (the id of an Airflow connection) or 'url'",
        ),
        (
            "archives:\n  shop: {url: x}\n  shop: {url: y}",
            "not valid YAML: line 3, column 3: 'shop' is written twice",
        ),
        ("archives: [", "not valid YAML: line 1, column 12: expected the node content, but found '<stream end>'"),
        ("? [a]\n: b", "not valid YAML: line 1, column 3: found unhashable key"),
    ],
)
def test_mistake_is_one_sentence_with_file_key_and_remedy(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_config(file)
    assert str(caught.value).startswith(str(file))
    assert str(caught.value).endswith(sentence)


def test_password_in_a_url_is_refused_and_not_repeated(file: Path) -> None:
    file.write_text("archives: {shop: {url: x, sources: {db: {url: 'postgresql://me:hunter2@host/db'}}}}")
    with pytest.raises(UsageError, match="may not hold a password") as caught:
        load_config(file)
    assert "hunter2" not in str(caught.value)


def test_no_python_object_is_made_from_the_file(file: Path) -> None:
    file.write_text("archives: !!python/object/apply:os.system ['true']")
    with pytest.raises(UsageError, match="could not determine a constructor"):
        load_config(file)


def test_empty_file_means_no_archives(file: Path) -> None:
    file.write_text("")
    assert load_config(file).archives == {}


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path)


def test_file_is_found_by_variable_then_here_then_in_airflow_home(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_config() is None
    home = nowhere / "airflow" / "archives.yaml"
    home.parent.mkdir()
    home.write_text("")
    assert find_config() == home
    here = nowhere / "archives.yaml"
    here.write_text("")
    assert find_config() == here
    named = nowhere / "named.yaml"
    named.write_text("")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(named))
    assert find_config() == named


def test_variable_that_names_no_file_is_a_mistake(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(nowhere / "gone.yaml"))
    with pytest.raises(UsageError, match=r"HOLDFAST_ARCHIVES says .*gone\.yaml, but there is no such file"):
        find_config()


def test_missing_file_says_what_to_do(nowhere: Path) -> None:
    with pytest.raises(UsageError, match="write one, or set HOLDFAST_ARCHIVES"):
        load_config()


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
    assert archive.place() == "s3://a/x"
    assert archive.place("far") == "s3://b/x"
    with pytest.raises(UsageError, match=r"no replica 'fra' of this archive \(it has: near, far\); did you mean 'far'"):
        archive.place("fra")
    with pytest.raises(UsageError, match=r"no replica 'near' of this archive \(it has: none\)"):
        ArchiveConfig(url="s3://a/x").place("near")


@pytest.mark.parametrize(
    ("words", "bytes_a_second"),
    [("50 MB", 50e6), ("1.5GB/s", 1.5e9), ("800kB", 8e5), ("7 B/s", 7.0)],
)
def test_bandwidth_is_read_in_decimal_units(file: Path, words: str, bytes_a_second: float) -> None:
    assert parse_bandwidth(words) == bytes_a_second
    file.write_text(f"archives: {{a: {{url: u, sources: {{s: {{url: 'postgresql://h/d', bandwidth: {words}}}}}}}}}")
    _, source = load_config(file).archive("a").source(None)
    assert source.bandwidth == words


@pytest.mark.parametrize("words", ["", "50", "0 MB", "-1 MB", "50 MiB", "fast", "1e9 B"])
def test_bandwidth_that_is_none_is_refused_with_an_example(words: str) -> None:
    with pytest.raises(UsageError, match="bytes a second with a unit, such as 50 MB"):
        parse_bandwidth(words)


@pytest.mark.parametrize(
    ("words", "size"),
    [("10 GiB", 10 << 30), ("500MB", 500_000_000), ("1.5 TB", 1_500_000_000_000), ("8kiB", 8192), ("7 B", 7)],
)
def test_size_is_read_in_decimal_and_binary_units(file: Path, words: str, size: int) -> None:
    assert parse_size(words) == size
    file.write_text(
        f"archives: {{a: {{url: u, sources: {{s: {{url: 'postgresql://h/d', max_retained_wal: {words}}}}}}}}}"
    )
    _, source = load_config(file).archive("a").source(None)
    assert source.max_retained_wal == words


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
