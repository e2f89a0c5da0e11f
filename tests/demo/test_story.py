"""What the demo's story writes before it is played; test_demo.py, here and in tests/in_airflow, plays it."""

from __future__ import annotations

import json
from pathlib import Path

from demo import story
from demo.prove import Fingerprint
from tests.support.configuration import load_config


def test_the_configuration_is_read_as_any_other(tmp_path: Path) -> None:
    other = {"url": str(tmp_path / "other")}
    url = "postgresql://postgres@127.0.0.1:5433/shop"

    path = story.configure(tmp_path, tmp_path / "archive", url, {"other": other})

    assert path.parent == tmp_path
    config = load_config(path)
    assert sorted(config.archives) == ["other", story.ARCHIVE]
    assert config.archive(story.ARCHIVE).location() == str(tmp_path / "archive")
    name, source = config.archive(story.ARCHIVE).source(None)
    assert (name, source.connection, source.url, source.tables) == (story.SOURCE, story.CONNECTION, url, ["*.*"])


def test_an_archive_of_the_same_name_is_written_instead(tmp_path: Path) -> None:
    path = story.configure(tmp_path, tmp_path / "archive", "postgresql://h/d", {story.ARCHIVE: {"url": "s3://b/a"}})

    assert json.loads(path.read_text())["archives"][story.ARCHIVE] == {"url": "s3://b/a"}


def test_the_rate_of_a_backup_is_of_its_rows_bytes_and_seconds() -> None:
    summary = {"rows": 1_234_567, "bytes": 2_500_000}
    moment = story.Moment("commit:1", summary, Fingerprint({}, {}, ""), written_meanwhile=0, seconds=2.04)

    assert moment.rate == "1,234,567 rows, 2.5 MB, 2.0 s"
