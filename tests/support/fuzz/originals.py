"""Whole archives that the fuzzer begins with: they have every kind of object, and are small."""

from __future__ import annotations

import shutil
from pathlib import Path

from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.operations.marks import set_mark
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import new_key
from locking import Owner, RWLock, end
from tests.support.following.followed import Followed, open_followed
from tests.support.fuzz.cases import Original
from tests.support.jobs.command_here import run_here

STATEMENT = "select * from orders order by 1"


def in_the_clear(source: Address, place: Path) -> Original:
    """Make an archive with full backups, changes that are joined and such as are not, marks, a hold and locks."""
    folder = place / "archive"
    with open_followed(source, folder) as followed:
        followed.make(
            (
                "create table orders (id int primary key, word text)",
                "create table odd (id int, word text)",
                "insert into orders select i, 'new' from generate_series(1, 50) i",
                "insert into odd select i, 'new' from generate_series(1, 5) i",
            )
        )
        followed.back_up()
        _change(followed, 2)
        _run("compact", followed.store.url, "--min-blocks", "2")
        archive = followed.archive()
        write_checkpoint(archive.store, archive.identity.id, archive.state)
        followed.back_up("full")
        _change(followed, 2)
        set_mark(followed.archive(), [followed.store], source, "shop", "before the mistake")
        _change(followed, 2)
        positions = [f"lsn:{position}" for position, _ in followed.moments]
    _run("hold", "add", str(folder), "--at", "latest", "--reason", "audit")
    _leave_things(open_store(str(folder)), folder)
    targets = [(at, STATEMENT) for at in ("latest", positions[1], "before the mistake")]
    return Original(folder, None, targets)


def encrypted(original: Original, place: Path) -> Original:
    """Return an encrypted copy of an archive, with locks of its own."""
    key = f"file:{place / 'key'}"
    place.mkdir()
    (place / "key").write_text(new_key())
    _run("copy", str(original.folder), str(place / "archive"), "--to-key", key)
    folder = place / "archive"
    _leave_things(open_store(str(folder), key), folder)
    return Original(folder, key, original.targets)


def _change(followed: Followed, times: int) -> None:
    for number in range(times):
        followed.run(f"update orders set word = 'after {number}' where id % 7 = {number}")
        followed.run(f"delete from orders where id = {number + 10}")
        followed.back_up("changes")


def _leave_things(store: ObjectStore, folder: Path) -> None:
    """Leave what killed jobs and people leave: locks that are held, ended and of a run, and files that nobody names."""
    store.put("probes/20260301T120000Z-00000000.json", b'{"create_if_absent": true}')
    RWLock(store, "report", owner=Owner(scope="run")).write(wait=0, renew=False)
    ended = RWLock(store, "ledger").write(wait=0, renew=False)
    end(store, "ledger", ended.txn, reason="somebody did it")
    RWLock(store, "ledger").read(wait=0, renew=False)
    file = min(folder.rglob("*.parquet"))
    parts = list(file.relative_to(folder).parts)
    for kind in ("snapshot", "changes"):
        if kind in parts:
            parts[parts.index(kind) + 1] = "0" * 32
            orphan = folder.joinpath(*parts)
            orphan.parent.mkdir(parents=True)
            shutil.copy2(file, orphan)


def _run(*command: str) -> None:
    done = run_here(*command)
    assert done.code == 0, done.err
