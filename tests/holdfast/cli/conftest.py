"""The command in this process, and small archives for it."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import TableRecord
from holdfast.cli import main
from holdfast.operations import ready_process
from holdfast.replication.log.store import ENVIRONMENT, PASSWORD, CoordinationStore
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.evolving import catalog
from tests.support.jobs.command import Finished, RunCommand
from tests.support.replicas.replicated import Replicas


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings of this machine, no archives.yaml, and signal handlers and logging as they were."""
    for name in ("PGPASSWORD", "PGUSER", "HOLDFAST_ARCHIVES", "AIRFLOW_HOME", "HOLDFAST_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    (folder := tmp_path / "here").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    level = logging.getLogger("locking").level
    yield
    logging.getLogger("locking").setLevel(level)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def holdfast(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Runs the command in this process; whatever it does, it never shows a traceback."""
    monkeypatch.setattr(ready_process, "begin", lambda application: None)

    def run(*arguments: str) -> Finished:
        monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert isinstance(ended.value.code, int)
        return Finished(ended.value.code, out, err)

    return run


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An empty archive in a folder."""
    return Archive.create(open_store(str(tmp_path / "archive")), name="shop").store


@pytest.fixture
def filled(store: ObjectStore) -> ObjectStore:
    """An archive with one backup of one table."""
    batch = pa.record_batch({"id": pa.array([1, 2, 3])})
    (file,) = write_parquet(store, "data/shop_db/1/snapshot/b/00000", batch.schema, [batch])
    table = TableRecord(id="1", table_schema="shop", name="orders", rows=3, digest="3:0", files=(file,))
    record = write_bytes(store, "data/shop_db/schema/b/catalog-1.json", catalog().model_dump_json().encode())
    block = make_block(tables=(table,)).model_copy(update={"catalog": record})
    Archive.open(store).add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    return store


@pytest.fixture(scope="session")
def empty_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a coordination store that has its tables, which takes a tenth of a second, and nothing in them."""
    file = tmp_path_factory.mktemp("log") / "log.db"
    CoordinationStore.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def log_address(tmp_path: Path, empty_log: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a coordination store that the environment names."""
    shutil.copyfile(empty_log, tmp_path / "log.db")
    monkeypatch.delenv(PASSWORD, raising=False)
    monkeypatch.setenv(ENVIRONMENT, address := f"sqlite:///{tmp_path}/log.db")
    return address


@pytest.fixture
def coordination(log_address: str) -> Iterator[CoordinationStore]:
    """The same store, opened."""
    with CoordinationStore.open(log_address) as store:
        yield store


@pytest.fixture
def two(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near` and `far`."""
    return Replicas.copied(tmp_path, coordination, "far")


@pytest.fixture
def three(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near`, `far` and `off`."""
    return Replicas.copied(tmp_path, coordination, "far", "off")
