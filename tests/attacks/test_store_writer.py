"""Somebody who can write into an archive's store: names that a terminal obeys, paths that lead elsewhere, bombs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Mark, Stream, WaitingTable
from holdfast.archive.format.document import TableRecord
from holdfast.archive.format.model import Hold
from holdfast.archive.format.runs import RunError, RunRecord
from holdfast.archive.locks import acquire
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
