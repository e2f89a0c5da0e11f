"""The file archives.yaml: where it is, how it is read, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.config.archives_yaml import find_config
from tests.support.configuration import load_config


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


def test_a_replica_that_is_left_alone_still_follows_the_log_of_its_store(file: Path) -> None:
    file.write_text("archives: {shop: {replicas: {near: s3://near/shop}, store: 'postgresql://holdfast@db/log'}}")
    assert load_config(file).archive("shop").location() == "s3://near/shop"


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
            "archives: {shop: {replicas: {}, store: 'sqlite:///log.db'}}",
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
            "archives: {shop: {url: x, deadline: 2h}}",
            "archives.shop.deadline: write a block of 'key: value' lines here, not '2h'",
        ),
        (
            "archives: {shop: {url: x, deadline: {changes: soon}}}",
            "archives.shop.deadline.changes: 'soon' does not fit: write a number and s, min, h, d or w, such as 24h or "
            "30d",
        ),
        (
            "archives: {shop: {url: x, timezone: Europe/Berlim}}",
            "archives.shop.timezone: there is no such time zone; did you mean 'Europe/Berlin'? (it says "
            "'Europe/Berlim')",
        ),
        (
            "archives: {shop: {url: x, timezone: ''}}",
            "archives.shop.timezone: there is no such time zone: write one such as Europe/Berlin (it says '')",
        ),
        (
            "archives: {shop: {url: x, owner: 'ann, bob'}}",
            "archives.shop.owner: 'ann, bob' does not fit: write one name, without a comma or a line break",
        ),
        (
            "archives: {shop: {url: x, pool: ''}}",
            "archives.shop.pool: '' does not fit: write one name, without a comma or a line break",
        ),
        (
            "archives: {shop: {url: x, queue: 7}}",
            "archives.shop.queue: input should be a valid string (it says 7)",
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
        (
            "archives: {shop: {replicas: {near: x, off: y}}}",
            "not valid YAML: line 1, column 39: YAML does not take off for a name: write it in quotes, 'off'",
        ),
        (
            "archives: {2024: {url: x}}",
            "not valid YAML: line 1, column 12: YAML does not take 2024 for a name: write it in quotes, '2024'",
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
