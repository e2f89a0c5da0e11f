"""Somebody who can write into an archive's store: names that a terminal obeys, paths that lead elsewhere, bombs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Mark, Stream, WaitingTable
from holdfast.archive.format.checksum import add_checksum
from holdfast.archive.format.commits import commit_key, parse_commit
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import Hold
from holdfast.archive.format.runs import RunError, RunRecord
from holdfast.archive.locks import acquire
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from tests.support.jobs.command import Finished, run
from tests.support.jobs.command_here import run_here

EVIL = "x\x1b]0;owned\x07\x1b[2J\r\nholdfast: all is well\t\x7f\x9b31m\u202e\u2066\u2028[red]:bomb:\x00"
"""What moves the cursor, names the window, breaks the line, shows text backwards, and is markup for rich."""

PLAIN = "a name like any other"
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)

_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

WIDE = {"COLUMNS": "2000"}
"""No cell of a table is wrapped for want of room."""

COMMANDS = (
    ("status",), ("points",), ("points", "--tables", "*"), ("hold", "list"), ("locks", "list"), ("locks", "explain"),
    ("locks", "plan"), ("verify",), ("compact", "--dry-run"), ("truncate", "--keep", "last=1", "--dry-run"),
    ("vacuum", "--dry-run", "--grace", "0s"), ("drill", "--history"), ("doctor",),
    ("query", "select 1"), ("locks", "reap"),
)  # fmt: skip


def hostile_archive(folder: Path, name: str) -> ObjectStore:
    """Return an archive in which everything that has a name, a reason or an owner has this one."""
    store = Archive.create(open_store(str(folder)), name=name).store
    batch = pa.record_batch({"id": pa.array([1, 2, 3])})
    (file,) = write_parquet(store, "data/shop_db/1/snapshot/b/00000", batch.schema, [batch])
    table = TableRecord(id="1", table_schema=name, name=name, rows=3, digest="3:0", files=(file,))
    catalog = write_bytes(store, "data/shop_db/schema/b/catalog-1.json", b"{}")
    waiting = WaitingTable(table=name, since=AT, reason=name, act=True)
    stream = Stream(
        slot=name,
        position="0/100",
        publication=name,
        publication_oid=1,
        not_followed={name: name},
        waiting={1: waiting},
    )
    block = make_block(tables=(table,), at=AT).model_copy(
        update={
            "catalog": catalog,
            "gap": name,
            "not_included": (name,),
            "unlogged": (name,),
            "stream": stream,
            "marks": (Mark(name=name, position="0/100", at=AT),),
        }
    )
    hold = Hold(id="h1", source="shop_db", position="0/100", at=AT, owner=name, reason=name, created=AT)
    archive = Archive.open(store)
    archive.add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    archive.add(lambda state: Change(kind="hold", holds=(hold,)), check=lambda: None, fence=None)
    error = RunError(type=name, message=name, exit_code=4)
    record = RunRecord(run="drill-shop_db.1", number=1, operation="drill", state="failed", step=name, error=error)
    store.put(f"runs/drill-shop_db.1/{1:06d}.json", record.to_bytes())
    return store


def assert_harmless(done: Finished) -> None:
    """A command has shown nothing that a terminal obeys but the ends of its own lines."""
    assert _OBEYED.findall(done.out + done.err) == []
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_names_in_an_archive_move_no_cursor_and_make_no_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    shown: dict[str, Finished] = {}
    for name in (PLAIN, EVIL):
        folder = tmp_path / ("evil" if name == EVIL else "plain")
        store = hostile_archive(folder, name)
        owner = Owner(user=name, dag_id=name, run_id=name, task_id=name, scope="run")
        with acquire(store, "restore", sources=[], owner=owner, purpose=name, wait=0):
            first, *more = command
            shown[name] = run_here(first, *([more.pop(0)] if first in _GROUPS else []), str(folder), *more, more=WIDE)
    assert_harmless(shown[EVIL])
    assert shown[EVIL].code == shown[PLAIN].code
    for of in ("out", "err"):
        assert getattr(shown[EVIL], of).count("\n") == getattr(shown[PLAIN], of).count("\n")


_GROUPS = ("hold", "locks")


def test_the_real_command_shows_names_escaped(tmp_path: Path) -> None:
    hostile_archive(tmp_path / "archive", EVIL)
    done = run("hold", "list", str(tmp_path / "archive"), more=WIDE)
    assert_harmless(done)
    assert r"\x1b]0;owned\x07\x1b[2J\r\nholdfast: all is well\t\x7f\x9b31m\u202e\u2066\u2028[red]:bomb:\x00" in done.out
    exact = run("hold", "list", str(tmp_path / "archive"), "--json")
    assert_harmless(exact)
    assert exact.value["holds"][0]["reason"] == EVIL


@pytest.mark.parametrize("folder", ["commits", "data/shop_db", "runs", "locks/ingest-shop_db", "checkpoints", "marks"])
def test_names_of_files_move_no_cursor_and_make_no_line(archive: ObjectStore, folder: str) -> None:
    (place := Path(archive.url) / folder).mkdir(parents=True, exist_ok=True)
    (place / EVIL.replace("\x00", "").replace("/", "")).write_bytes(b"{}")
    for command in (("status",), ("verify",), ("vacuum", "--dry-run", "--grace", "0s"), ("locks", "list"), ("doctor",)):
        first, *more = command
        done = run_here(first, *([more.pop(0)] if first in _GROUPS else []), archive.url, *more)
        assert_harmless(done)
        assert not any(line.startswith("holdfast: all is well") for line in (done.out + done.err).split("\n"))


BAD_PATHS = (
    "../outside", "/etc/passwd", "data/../../outside", "data//x", "data/./x", "", "data/", "data/x#y", "data/x#1#2",
    "data/x#-1", "data/x?versionId=1", "data\\x", "data/x\x00y", "data/x\n", "data/" + "x" * 2000,
)  # fmt: skip


def forge(store: ObjectStore, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the first commit of an archive, add_checksum it again, and return its key."""
    key = commit_key(1)
    document = json.loads(store.get(key))
    del document["checksum"]
    change(document)
    (path := Path(store.url) / key).unlink()
    path.write_bytes(add_checksum(json.dumps(document, indent=1).encode()))
    return key


@pytest.fixture
def archive(tmp_path: Path) -> ObjectStore:
    """An archive of one backup, with names like any other."""
    return hostile_archive(tmp_path / "archive", PLAIN)


@pytest.mark.parametrize("of", ["rows", "catalog"])
def test_a_path_that_leads_elsewhere_names_its_commit(archive: ObjectStore, of: str) -> None:
    def refused(*command: str) -> None:
        done = run_here(command[0], archive.url, *command[1:])
        assert_harmless(done)
        assert (done.code, f"{key} is damaged or not ours: add.0." in done.out + done.err) == (4, True), path
        assert ".path: " in done.out + done.err, path

    for path in BAD_PATHS:

        def change(document: dict[str, Any], path: str = path) -> None:
            block = document["add"][0]
            (block["catalog"] if of == "catalog" else block["tables"][0]["files"][0])["path"] = path

        key = forge(archive, change)
        refused("status")
    refused("verify", "--deep")
    refused("vacuum", "--grace", "0s")


def test_a_source_that_is_no_folder_names_its_commit(archive: ObjectStore) -> None:
    for name in ("../..", "..", "", "a/b", "/etc", "a b", "x" * 200, "\x1b[2J", "a\n"):

        def change(document: dict[str, Any], name: str = name) -> None:
            document["add"][0]["source"]["name"] = name

        key = forge(archive, change)
        done = run_here("points", archive.url)
        assert_harmless(done)
        assert (done.code, f"{key} is damaged or not ours: add.0.source.name: " in done.err) == (4, True), name


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("tables", 0, "rows"), -1),
        (("tables", 0, "rows"), 1 << 60),
        (("tables", 0, "files", 0, "size"), -1),
        (("tables", 0, "files", 0, "rows"), -3),
        (("catalog", "size"), -2),
    ],
    ids=str,
)
def test_a_count_below_nothing_names_its_commit(archive: ObjectStore, where: tuple[str | int, ...], value: int) -> None:
    def change(document: dict[str, Any]) -> None:
        found: Any = document["add"][0]
        for each in where[:-1]:
            found = found[each]
        found[where[-1]] = value

    key = forge(archive, change)
    done = run_here("status", archive.url, "--json")
    assert (done.code, done.value["exit_code"]) == (4, 4)
    assert f"{key} is damaged or not ours: add.0.{'.'.join(map(str, where))}: " in done.value["error"]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's own path may be short only
    try:
        with closing(socket.socket(socket.AF_UNIX)) as each:
            each.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


SPECIAL = (pipe, bound_socket, Path.mkdir, device)
OBJECTS = (
    "commits/*1.json",
    "data/*/*/*/*/*.parquet",
    "data/*/schema/b/*.json",
    "archive.json",
    "runs/*/*.json",
)


@pytest.mark.representatives("commits/*1.json-pipe", "data/*/*/*/*/*.parquet-device", "archive.json-folder")
@pytest.mark.parametrize("put", SPECIAL, ids=["pipe", "socket", "folder", "device"])
@pytest.mark.parametrize("pattern", OBJECTS)
def test_what_is_no_file_keeps_no_command_waiting(
    archive: ObjectStore, put: Callable[[Path], None], pattern: str
) -> None:
    (path, *_) = sorted(Path(archive.url).glob(pattern))
    path.unlink()
    put(path)
    for command in (("status",), ("verify", "--deep"), ("drill", "--history")):
        done = run_here(command[0], archive.url, *command[1:])
        assert_harmless(done)
        assert done.code in (0, 1, 2, 4)
        assert done.code == 0 or len(done.err.splitlines()) <= 2


BOUND = 600 << 20
"""Bytes that a task may take, beside four times the largest value."""


def runs() -> tuple[pa.Table, dict[str, Any]]:
    """One number, two hundred million times in eight columns: 1.6 GB."""
    indices = pa.repeat(pa.scalar(0, pa.int8()), 25_000_000)
    column = pa.DictionaryArray.from_arrays(indices, pa.array([7], pa.int64()))
    return pa.table({f"c{number}": column for number in range(8)}), {}


def zeros() -> tuple[pa.Table, dict[str, Any]]:
    """Pages of zeros, which are compressed to nothing: 3 GB."""
    return pa.concat_tables([pa.table({"v": ["0" * (1 << 20)]})] * 3000), {"use_dictionary": False}


def nulls() -> tuple[pa.Table, dict[str, Any]]:
    """Rows without a value: 1.6 GB of places for them."""
    return pa.table({f"c{number}": pa.nulls(25_000_000, pa.int64()) for number in range(8)}), {"use_dictionary": False}


def value() -> tuple[pa.Table, dict[str, Any]]:
    """A single value above the limit of one."""
    return pa.table({"v": pa.array(["0" * 600_000_000], pa.large_string())}), {"use_dictionary": False}


_READING = """
import resource, sys
from holdfast.archive.files.blocks import read_batches
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from holdfast.storage import open_store
taken = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
url, record, bound = sys.argv[1], FileRecord.model_validate_json(sys.argv[2]), int(sys.argv[3])
addresses = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (addresses + (3 << 30),) * 2)
before = taken()
try:
    for batch in read_batches(open_store(url), record):
        pass
except DamagedError as error:
    print(taken() - before)
    sys.exit(str(error))
"""


@pytest.mark.slow
@pytest.mark.representatives("runs", "zeros")
@pytest.mark.parametrize("bomb", [runs, zeros, nulls, value], ids=lambda bomb: bomb.__name__)
def test_a_small_file_that_unfolds_to_gigabytes_is_refused_in_bounded_memory(
    tmp_path: Path, bomb: Callable[[], tuple[pa.Table, dict[str, Any]]]
) -> None:
    table, options = bomb()
    rows = table.num_rows
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "bomb.parquet"
    pq.write_table(table, file, compression="zstd", store_schema=False, row_group_size=rows, **options)
    del table
    body = file.read_bytes()
    assert len(body) < 2_000_000
    record = FileRecord(path="data/bomb.parquet", size=len(body), sha256=hashlib.sha256(body).hexdigest(), rows=rows)
    command = [sys.executable, "-c", _READING, str(tmp_path), record.model_dump_json(), str(BOUND)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.startswith("data/bomb.parquet is no file of ours: a row group has "), done.stderr
    assert int(done.stdout) < BOUND


def test_a_bomb_in_an_archive_is_damage_that_verification_names(tmp_path: Path) -> None:
    store = hostile_archive(tmp_path / "archive", PLAIN)
    table, options = zeros()
    (path,) = sorted(Path(store.url).glob("data/*/*/*/*/*.parquet"))
    path.unlink()
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    body = path.read_bytes()

    def change(document: dict[str, Any]) -> None:
        file = document["add"][0]["tables"][0]["files"][0]
        file.update(size=len(body), sha256=hashlib.sha256(body).hexdigest(), rows=3000, footer=None)
        document["add"][0]["tables"][0]["rows"] = 3000

    forge(store, change)
    done = run_here("verify", store.url, "--deep")
    assert_harmless(done)
    assert done.code == 4
    assert "is no file of ours: a row group has " in done.out


FORGED = {
    "of a table": ("create table public.t (id int); comment on table public.t is ", "COMMENT ON TABLE public.t IS"),
    "of the schema": ("comment on schema public is ", "COMMENT ON SCHEMA public IS"),
}


def _forge_dump(place: Path, old: bytes, new: bytes) -> None:
    """Put other text into the dump of an archive's only backup, with all checksums right."""
    store = open_store(str(place))
    [key] = [each.key for each in store.list("commits/").objects if parse_commit(each.key, store.get(each.key)).add]
    commit = parse_commit(key, store.get(key))
    block = commit.add[0]
    dump = block.schema_dump
    assert dump is not None
    body = store.get(dump.key)
    assert body.count(old) == 1
    body = body.replace(old, new.ljust(len(old)))
    store.delete(dump.key)
    store.create(dump.key, body)
    forged = dump.model_copy(update={"sha256": hashlib.sha256(body).hexdigest()})
    commit = commit.model_copy(update={"add": (block.model_copy(update={"schema_dump": forged}),)})
    store.delete(key)
    store.create(key, commit.to_bytes())


@pytest.mark.service
@pytest.mark.representatives("of a table")
@pytest.mark.parametrize("what", FORGED)
def test_a_forged_comment_runs_nothing_with_a_superusers_rights_in_a_drill(
    what: str, tmp_path: Path, new_database: Callable[..., Address]
) -> None:
    made, begin = FORGED[what]
    source, archive = new_database(), tmp_path / "archive"
    with connect(source) as session:
        session.execute((made + f"'{'y' * 300}'").encode())
    with tempfile.TemporaryDirectory(prefix="forged-", dir="/tmp") as folder:  # the server's own user may write there
        Path(folder).chmod(0o777)
        taken = Path(folder) / "taken"
        assert run_here("init", str(archive)).code == 0
        assert run_here("backup", str(archive), "--source", source.url, "--kind", "full", address=source).code == 0
        old, new = f"{begin} '{'y' * 300}';", f"{begin} 'x'; COPY (SELECT 1) TO PROGRAM 'cat > {taken}'; --"
        _forge_dump(archive, old.encode(), new.encode())

        done = run_here("drill", str(archive), "--json")

        assert done.code == 0, done.err
        assert (done.value["equal"], done.value["not_restored"]) == (True, 1)
        assert not taken.exists()
