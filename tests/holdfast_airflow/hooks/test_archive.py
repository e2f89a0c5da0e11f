"""Connections to archives: their form, their test button, and who may name one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.format.last_seen import VARIABLE
from holdfast.common.errors import RefusedError, UsageError
from holdfast.storage import open_store
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.hooks import HoldfastHook
from tests.support.archives.blocks_without_rows import fill


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **fields: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))


def test_an_archive_may_be_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "archive")
    connect(monkeypatch, "offsite", conn_type="holdfast", host=url)
    works, said = HoldfastHook("offsite").test_connection()
    assert (works, "holdfast init" in said) == (False, True)
    Archive.create(open_store(url), name="shop")
    assert HoldfastHook("offsite").test_connection() == (True, "format 2, 0 commits, 0 blocks")
    assert find_archive_or_connection("offsite").location() == url
    assert find_archive_or_connection(url).location() == url


def test_a_key_is_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "offsite", conn_type="holdfast", host=str(tmp_path), extra={"key": "file:/run/key"})
    assert find_archive_or_connection("offsite").key == "file:/run/key"
    connect(monkeypatch, "offsite", conn_type="holdfast", host=str(tmp_path), extra={"key": "c2VjcmV0"})
    with pytest.raises(UsageError, match="key"):
        find_archive_or_connection("offsite")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "http", "host": "x"}, "for an archive it must be 'holdfast'"),
        ({"conn_type": "holdfast"}, "fill in its field 'URL'"),
    ],
)
def test_a_connection_that_is_no_archive_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], said: str
) -> None:
    connect(monkeypatch, "offsite", **fields)
    with pytest.raises(UsageError, match=said):
        find_archive_or_connection("offsite")


def test_a_name_that_nobody_knows_is_refused_as_before() -> None:
    with pytest.raises(UsageError, match="no archive 'nowhere'"):
        find_archive_or_connection("nowhere")


def test_no_new_archive_takes_the_place_of_one_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    hook = HoldfastHook(str(tmp_path / "archive"))
    assert hook.create("shop") is True
    fill(hook.get_conn().store, 1)
    hook.get_conn()
    shutil.rmtree(tmp_path / "archive")
    with pytest.raises(RefusedError, match=r"it is gone\. Is the disk mounted"):
        hook.create("shop")
    assert not (tmp_path / "archive" / "archive.json").exists()


def test_an_archive_with_replicas_is_not_created_by_half_and_taken_as_it_is_there(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    (tmp_path / "archives.yaml").write_text(f"archives: {{twice: {{replicas: {{near: {near}, far: {far}}}}}}}")
    with pytest.raises(UsageError) as refused:
        HoldfastHook("twice").create("twice")
    assert str(refused.value) == (
        f"twice has replicas, which this does not create: run 'holdfast init {near} --name twice', then 'holdfast "
        f"replica add near {near}', 'holdfast replica add far {far}', and clear this task"
    )
    Archive.create(open_store(str(near)), name="twice")
    assert HoldfastHook("twice").create("twice") is False
