"""`holdfast config`: mistakes of archives.yaml for a pipeline, and a schema for editors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.jobs.command import RunCommand

ONE_WRONG = """archives:
  good:
    url: /backups/good
  late:
    url: /backups/late
    schedule:
      full: "0 25 * * *"
"""


def test_each_mistake_is_said_with_its_line_and_the_code_is_that_of_wrong_usage(
    holdfast: RunCommand, tmp_path: Path
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(ONE_WRONG)
    done = holdfast("config", "check", str(path))
    sentence = (
        f"{path}, line 7: archives.late.schedule.full: '25' is no hour: write *, 0 to 23, a range, a list or a step"
    )
    assert done.code == 2
    assert sentence in done.out
    assert done.out.endswith(f"{path}: archives without a mistake: good\n")
    value = holdfast("config", "check", str(path), "--json").value
    assert (value["archives"], list(value["mistakes"])) == (["good"], ["late"])
    path.write_text(ONE_WRONG.replace("25", "23"))
    assert holdfast("config", "check", str(path)).code == 0


def test_all_mistakes_of_an_archive_are_said_at_once(holdfast: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(ONE_WRONG.replace("/backups/late", "/backups/late\n    colour: red"))
    done = holdfast("config", "check", str(path))
    assert "archives.late: unknown key 'colour'" in done.out
    assert f"{path}, line 8: archives.late.schedule.full: '25' is no hour" in done.out
    value = holdfast("config", "check", str(path), "--json").value
    assert len(value["further"]["late"]) == 1


def test_a_mistake_outside_of_the_archives_hides_none_in_them(holdfast: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("archive: {}\narchives:\n  late: {urll: x}\n  early: {url: y, keep: {daily: -1}}\n")
    done = holdfast("config", "check", str(path))
    for what in (
        "unknown key 'archive'",
        "line 3: archives.late: unknown key 'urll'",
        "line 4: archives.early.keep.daily",
    ):
        assert what in done.err


def test_a_file_of_which_nothing_can_be_read_is_wrong_usage(
    holdfast: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "write one, or set HOLDFAST_ARCHIVES" in holdfast("config", "check").err
    Path("archives.yaml").write_text("archives: [")
    done = holdfast("config", "check")
    assert (done.code, "is not valid YAML: line 1" in done.err) == (2, True)


def test_a_mistake_in_another_archive_is_in_nobodys_way(
    holdfast: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("archives.yaml").write_text("archives: {good: {url: here}, bad: {urll: there}}")
    assert holdfast("init", "good").code == 0
    assert holdfast("status", "good").code == 0
    assert holdfast("locks", "list", str(tmp_path / "here")).code == 0
    assert "archives.bad: unknown key 'urll'" in holdfast("status", "bad").err
    assert holdfast("init", str(tmp_path / "elsewhere")).code == 0
    # The entry that cannot be read is this one's: where its log is, nobody knows.
    assert "archives.bad: unknown key 'urll'" in holdfast("status", str(tmp_path / "there")).err


def test_the_schema_is_one_of_json_and_knows_the_keys(holdfast: RunCommand) -> None:
    schema = json.loads(holdfast("config", "schema").out)
    assert set(schema["$defs"]["ArchiveConfig"]["properties"]) >= {"url", "replicas", "sources", "schedule", "keep"}
