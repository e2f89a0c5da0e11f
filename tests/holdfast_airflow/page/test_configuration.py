from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast_airflow.page.configuration import Configurations


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "archives.yaml"
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(path))
    return path


def write(path: Path, text: str, second: int) -> None:
    path.write_text(text)
    os.utime(path, (second, second))


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(file: Path) -> None:
    configurations = Configurations()
    write(file, "archives: {shop: {url: /shop}}", 1)
    first = configurations.current()
    assert list(first.archives) == ["shop"]
    assert configurations.current() is first
    write(file, "archives: {shop: {url: /shop}, books: {urll: /books}}", 2)
    second = configurations.current()
    assert (list(second.archives), list(second.mistakes), second.problem) == (["shop"], ["books"], "")


@pytest.mark.parametrize("text", ["archives: [", "\0", "archives: 7"])
def test_a_file_that_cannot_be_read_leaves_the_last_good_one_with_what_is_wrong(file: Path, text: str) -> None:
    configurations = Configurations()
    write(file, "archives: {shop: {url: /shop}}", 1)
    configurations.current()
    write(file, text, 2)
    now = configurations.current()
    assert list(now.archives) == ["shop"]
    assert str(file) in now.problem
    file.unlink()
    assert list(configurations.current().archives) == ["shop"]
    write(file, "archives: {books: {url: /books}}", 3)
    assert (list(configurations.current().archives), configurations.current().problem) == (["books"], "")


def test_without_a_file_there_are_no_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_ARCHIVES", raising=False)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    assert (dict(Configurations().current().archives), Configurations().current().problem) == ({}, "")
