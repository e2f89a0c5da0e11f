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


ONE_NAME = "write one name, without a comma or a line break"
SPAN = "write a number and s, min, h, d or w, such as 24h or 30d"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("", ": an archive needs either 'url' or 'replicas'"),
        ("url: x, replicas: {a: b, c: d}", ": an archive needs either 'url' or 'replicas'"),
        ("replicas: {a: b}", ": 'replicas' needs two or more; for one place write 'url'"),
        ("replicas: {}, store: 'sqlite:///log.db'", ": 'replicas' needs two or more; for one place write 'url'"),
        ("url: x, store: 'sqlite:///log.db'", ": 'store' is for archives with 'replicas'; this one has a 'url' only"),
        ("replicas: {a: b, c: d}, quorum: 3", ": 'quorum' is larger than the number of 'replicas'"),
        ("url: x, consistency: strict", ".consistency: input should be 'eventual' or 'sequential' (it is 'strict')"),
        ("url: x, sources: {db: {conection: y}}", ".sources.db: unknown key 'conection'; did you mean 'connection'?"),
        ("url: x, keep: {q: 1}", ".keep: unknown key 'q'; known: last, hourly, daily, weekly, monthly, yearly, within"),
        ("url: x, keep: {last: 0}", ".keep.last: input should be greater than or equal to 1 (it is 0)"),
        ("url: x, keep: {within: soon}", "'soon' does not fit: write a number and h, d, w, m or y, such as 7d"),
        (
            "url: x, schedule: {truncation: '@daily'}",
            ": 'schedule.truncation' needs rules in 'keep', such as daily: 14",
        ),
        ("url: x, deadline: 2h", ".deadline: write a block of 'key: value' lines here, not '2h'"),
        ("url: x, deadline: {changes: soon}", f".deadline.changes: 'soon' does not fit: {SPAN}"),
        ("url: x, timezone: ''", ": there is no such time zone: write one such as Europe/Berlin (it is '')"),
        ("url: x, owner: 'ann, bob'", f".owner: 'ann, bob' does not fit: {ONE_NAME}"),
        ("url: x, queue: 7", ".queue: input should be a valid string (it is 7)"),
        (
            "url: x, verification: {budget: all}",
            "'all' does not fit: write bytes with a unit, such as 100 GB, or a length of time, such as 2h",
        ),
        (
            "url: x, sources: {db: {tables: ['*.*']}}",
            ".sources.db: a source needs 'connection' (the id of an Airflow connection) or 'url'",
        ),
    ],
)
def test_mistake_is_one_sentence_with_file_key_and_remedy(file: Path, entry: str, sentence: str) -> None:
    file.write_text(f"archives: {{shop: {{{entry}}}}}")
    with pytest.raises(UsageError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}, line 1: archives.shop")
    assert str(caught.value).endswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("archive: {}", "the file: unknown key 'archive'; did you mean 'archives'?"),
        ("archives: 3", "archives: write a block of 'key: value' lines here, not 3"),
        (
            "archives: {'a/b': {url: x}}",
            "'a/b' does not fit: use letters, digits, '_', '.' and '-', at most 64, beginning with a letter or digit",
        ),
        ("archives:\n  shop: {url: x}\n  shop: {url: y}", "line 3, column 3: 'shop' is written twice"),
        ("archives: {2024: {url: x}}", "YAML does not take 2024 for a name: write it in quotes, '2024'"),
        ("archives: [", "not valid YAML: line 1, column 12: expected the node content, but found '<stream end>'"),
        ("? [a]\n: b", "not valid YAML: line 1, column 3: found unhashable key"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(file: Path, text: str, sentence: str) -> None:
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
    with pytest.raises(UsageError, match=r"HOLDFAST_ARCHIVES is .*gone\.yaml, but there is no such file"):
        find_config()


def test_missing_file_says_what_to_do(nowhere: Path) -> None:
    with pytest.raises(UsageError, match="write one, or set HOLDFAST_ARCHIVES"):
        load_config()
