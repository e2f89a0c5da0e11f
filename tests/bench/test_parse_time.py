"""The bench of parse time reads our DAG files and plain ones with as many DAGs and tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.parse_time import (
    IMPORTED,
    OURS,
    WITH_FORMS,
    WITHOUT_FORMS,
    ParseTimes,
    archives_yaml,
    as_markdown,
    measure,
)
from bench.support.figures import Series
from holdfast.config.archives_yaml import read_archives


def test_the_archives_have_their_sources(tmp_path: Path) -> None:
    path = tmp_path / "archives.yaml"
    path.write_text(archives_yaml(12, 3))
    read = read_archives(path)
    assert (len(read.archives), dict(read.mistakes)) == (12, {})
    assert {tuple(archive.sources) for archive in read.archives.values()} == {("s0", "s1", "s2")}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_plain_dags_are_as_many_as_ours() -> None:
    found = measure(2, 2, 1)
    assert (found.dags, found.tasks) == (23, 45)
    assert all(0 < series.best < 60 for series in found.series.values())
    assert len(found.files) == 16


def test_the_report_says_what_was_not_reached() -> None:
    names = (OURS, WITH_FORMS, WITHOUT_FORMS)
    series = {OURS: Series(OURS, (3.0,)), WITH_FORMS: Series(WITH_FORMS, (2.0,)), WITHOUT_FORMS: Series("x", (1.0,))}
    series |= {each + IMPORTED: Series(each + IMPORTED, (1.0,)) for each in names}
    slow = ParseTimes(1, 1, 10, 12, series, {"backup.py": 0.5}, {"Processor": "x"}, "today")
    assert slow.missed == ["beside plain DAGs with the same forms"]
    assert "**no**" in as_markdown(slow)
    assert "| backup.py | 0.50 |" in as_markdown(slow)
