"""The state of the page, bounded as airflow.cfg says."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from holdfast_airflow.page.looks import LookTimedOutError
from holdfast_airflow.page.page import Configurations, Page


def test_airflow_cfg_says_how_long_a_look_may_take_and_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__HOLDFAST__PAGE_TIME_LIMIT", "0.01")
    monkeypatch.setenv("AIRFLOW__HOLDFAST__PAGE_LOOKS", "1")
    page, may_end = Page(), threading.Event()

    async def look_twice() -> list[str]:
        said = []
        for _ in range(2):
            with pytest.raises(LookTimedOutError) as refused:
                await page.looks.within(may_end.wait)
            said.append(str(refused.value))
        return said

    first, second = asyncio.run(look_twice())
    may_end.set()
    assert "has not answered within" in first
    assert second.startswith("1 looks at stores have not ended yet")


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
