"""The DAG that sets an archive up: its tasks in order, and what they say."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from holdfast.archive import Archive
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store
from holdfast_airflow.exceptions import JobRefused
from tests.support.airflow.dag_files import DAGS, TWO, Read, dag

pytestmark = pytest.mark.slow


@pytest.fixture
def source(address: Address) -> Address:
    """A database with a table."""
    with connect(address) as session:
        session.execute("create table public.orders as select 1 as id")
    return address


@pytest.fixture
def role(source: Address) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    name = f"setup_{source.database}"
    with connect(source) as session:
        session.execute(f"create role {name} login password 'word'".encode())
    yield name
    with connect(source) as session:
        session.execute(f"drop owned by {name}".encode())
        session.execute(f"drop role {name}".encode())


def call(bag: DagBag, task_id: str, **params: Any) -> Any:
    """Call the function of a task, as a run of the form would."""
    task: Any = dag(bag, "setup_shop").get_task(task_id)
    return task.python_callable(*task.op_args, **task.op_kwargs, **params)


def follow(monkeypatch: pytest.MonkeyPatch, folder: Path, source: Address, schedule: str = "{}") -> DagBag:
    """Put an archive that is not there yet, and a source, into archives.yaml."""
    (folder / "archives.yaml").write_text(
        f"archives: {{shop: {{url: new, schedule: {schedule}, sources: {{shop_db: {{connection: shop_postgres}}}}}}}}"
    )
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_POSTGRES", _connection(source))
    return DagBag(str(DAGS / "setup.py"))


def _connection(address: Address) -> str:
    host, _, port = (address.location or ("", ""))[0].rpartition(":")
    fields = {"conn_type": "postgres", "host": host, "port": int(port), "schema": address.database}
    return json.dumps({**fields, "login": address.user, "password": address.password})


def test_each_source_is_checked_before_its_first_backup(read: Read) -> None:
    bag = read(TWO)
    found: Any = dag(bag, "setup_big")
    assert found.get_task("create").downstream_task_ids == {"check_a", "check_b"}
    assert found.get_task("check_a").downstream_task_ids == {"backup_a"}
    assert found.get_task("unpause").upstream_task_ids == {"backup_a", "backup_b"}
    kinds = {name: found.get_task(name).kind for name in ("backup_a", "backup_b")}
    assert set(kinds.values()) == {"changes"}
    shop: Any = dag(bag, "setup_shop").get_task("backup_shop_db")
    assert shop.kind == "full"
    assert "setup_kept" not in bag.dags  # it has no source


def test_what_has_no_schedule_need_not_be_unpaused(read: Read) -> None:
    found = read(TWO).dags
    assert {found[name].is_paused_upon_creation for name in ("setup_big", "restore_big", "migration_big")} == {False}
    scheduled = ("backup_big", "compaction_big", "lock_reaper_big")
    assert {found[name].is_paused_upon_creation for name in scheduled} == {None}


def test_the_archive_is_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Address) -> None:
    bag = follow(monkeypatch, tmp_path, source)
    assert call(bag, "create") is True
    assert Archive.open(open_store(str(tmp_path / "new"))).identity.name == "shop"
    assert call(bag, "create") is False


def test_a_source_that_is_ready_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Address, caplog: pytest.LogCaptureFixture
) -> None:
    bag = follow(monkeypatch, tmp_path, source, "{changes: '@hourly'}")
    call(bag, "create")
    with caplog.at_level(logging.INFO):
        call(bag, "check_shop_db", params={})
    assert "shop_db can be backed up: PostgreSQL" in caplog.text


def test_a_check_names_all_that_is_missing_and_an_administrator_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Address, caplog: pytest.LogCaptureFixture, role: str
) -> None:
    bag = follow(monkeypatch, tmp_path, source.as_user(role, "word"))
    monkeypatch.setenv("AIRFLOW_CONN_ADMIN", _connection(source))
    call(bag, "create")
    with pytest.raises(JobRefused, match=r"orders.*(grant|setup)"):
        call(bag, "check_shop_db", params={"admin_connection": None})
    with caplog.at_level(logging.INFO):
        call(bag, "check_shop_db", params={"admin_connection": "admin"})
    assert f'as admin: GRANT pg_read_all_data TO "{role}"' in caplog.text
    assert "shop_db can be backed up" in caplog.text


def test_the_last_task_says_how_to_unpause_the_archives_dags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Address, caplog: pytest.LogCaptureFixture, read: Read
) -> None:
    bag = follow(monkeypatch, tmp_path, source)
    with caplog.at_level(logging.INFO):
        call(bag, "unpause")
    pattern = caplog.text.partition("--treat-dag-id-as-regex '")[2].partition("'")[0]
    scheduled = {found.dag_id for found in read(TWO).dags.values() if found.schedule and found.dag_id.endswith("_big")}
    named = {name for name in read(TWO).dags if re.search(pattern.replace("_shop", "_big"), name)}
    assert scheduled | {"holdfast_configuration"} <= named
