"""Archives with replicas, in folders and on object storage, whose backups are made up and have real files."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.data_files import read_file
from holdfast.archive.format.block import Block
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import LogPlace
from holdfast.archive.format.state import State
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import add, check_removable, forget, log_state
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.membership import begin_membership
from holdfast.replication.work.recovery import Recovered, recover
from holdfast.replication.work.replica import ReplicatedArchive, Synced
from holdfast.storage import ObjectStore, open_store
from tests.support.jobs.command import RunCommand

_numbers = itertools.count(1)


def nothing() -> None:
    """Stand for a check of locks that are held."""


@dataclass
class Replicas:
    """The replicas of one archive.

    :param folder: of the test.
    :param coordination: the store with their log.
    """

    folder: Path
    coordination: CoordinationStore
    archive: str = ""
    backups: list[str] = field(default_factory=list)

    @classmethod
    def begun(cls, folder: Path, coordination: CoordinationStore, *others: str, backups: int = 1) -> Replicas:
        """Make an archive with backups, and replicas of it; the first is called `near`."""
        replicas = cls(folder, coordination)
        archive = Archive.create(replicas.place("near"), name="shop")
        replicas.archive = archive.identity.id
        for _ in range(backups):
            archive.add(replicas.backup(archive.store), check=nothing, fence=None)
        begin_membership(coordination, archive.store, "near")
        for name in others:
            replicas.add(name)
        return replicas

    @classmethod
    def copied(cls, folder: Path, coordination: CoordinationStore, *others: str) -> Replicas:
        """Return what `begun` makes, as a copy of what it has made in this process once: that takes a fifth as long."""
        return cls.copy_of(_template(others), folder, coordination)

    @classmethod
    def copy_of(cls, template: Template, folder: Path, coordination: CoordinationStore) -> Replicas:
        """Return a copy of replicas that are kept, in another folder and another store."""
        for made in template.folder.iterdir():
            if made.is_dir():
                shutil.copytree(made, folder / made.name)
        age = time.time() - template.made

        def fill(c: sa.Connection) -> None:
            for table in schema.metadata.sorted_tables:
                if rows := [_moved(row, template.folder, folder, age) for row in template.rows[table.name]]:
                    c.execute(table.insert(), rows)

        coordination.run(fill)
        return cls(folder, coordination, template.archive, list(template.backups))

    @property
    def under(self) -> str:
        """Return the path, or the URL, under which each replica has a folder by its name."""
        return str(self.folder)

    def place(self, name: str) -> ObjectStore:
        """Return the store of a replica."""
        return open_store(f"{self.under}/{name}")

    def add(self, name: str) -> Recovered:
        """Add a replica, and make it what the others are."""
        url = self.place(name).url
        self.coordination.run(lambda c: add(c, self.archive, name=name, url=url))
        return self.recover(name)

    def recover(self, name: str, *, source: str | None = None, deep: bool = True) -> Recovered:
        """Recover a replica."""
        return recover(self.coordination, self.archive, name, source=source, deep=deep)

    def open(self, name: str) -> ReplicatedArchive:
        """Open a replica, and begin to act for it."""
        return ReplicatedArchive.begin(self.place(name), self.coordination)

    def sync(self, name: str, upto: int | None = None) -> Synced:
        """Bring a replica to the head of the log."""
        return self.open(name).sync(check=nothing, fence=None, upto=upto)

    def back_up(self, name: str, source: str = "shop_db") -> int:
        """Make a backup through a replica; return the index of its entry."""
        archive = self.open(name)
        archive.add(self.backup(archive.store, source), check=nothing, fence=None)
        assert archive.state.log is not None
        return archive.state.log.index

    def backup(self, store: ObjectStore, source: str = "shop_db") -> Callable[[State], Change]:
        """Write the files of a backup, and return what plans its commit."""
        block, plan = made_backup(store, source)
        self.backups.append(block)
        return plan

    def state(self, name: str) -> State:
        """Return what a replica's archive holds."""
        return Archive.open(self.place(name)).state

    def place_of(self, name: str) -> LogPlace:
        """Return where a replica says that it stands in the log."""
        place = Archive.open(self.place(name), recovering=True).state.log
        assert place is not None
        return place

    def change(self, name: str, **values: object) -> None:
        """Change what the store says of a replica."""
        c = schema.replicas.c
        update = schema.replicas.update().where(c.name == name).values(**values)
        self.coordination.run(lambda connection: connection.execute(update))

    def lose(self, *names: str) -> None:
        """Make replicas lost."""
        for name in names:
            self.change(name, is_lost=True, lost_reason="it was away", active_until=0.0)

    def once_appended(self, patch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
        """Do something once, right after the next transaction that appends an entry, before its caller goes on."""
        run = self.coordination.run

        def head() -> int:
            return run(lambda c: log_state(c, self.archive)).head

        def watched(work: Callable[[sa.Connection], Any], **more: Any) -> Any:
            before = head()
            result = run(work, **more)
            if head() > before:
                patch.undo()
                action()
            return result

        patch.setattr(self.coordination, "run", watched)

    def is_whole(self, name: str) -> bool:
        """Say whether every file that a replica names is there as it was written; raises where one is not."""
        store = self.place(name)
        for placed in Archive.open(store).state.blocks.values():
            for file in placed.block.files():
                read_file(store, file)
        return True


@dataclass
class Template:
    """Replicas that are copied; `made` is in seconds since 1970."""

    keeper: TemporaryDirectory[str]
    archive: str
    backups: list[str]
    made: float
    rows: dict[str, list[dict[str, Any]]]

    @property
    def folder(self) -> Path:
        return Path(self.keeper.name)


def kept(make: Callable[[Path, CoordinationStore], Replicas]) -> Template:
    """Keep what is made of replicas in a folder and its store, so that tests may copy it."""
    keeper = TemporaryDirectory(prefix="holdfast-replicas-")
    with CoordinationStore.open(f"sqlite:///{keeper.name}/coordination.db") as coordination:
        made = make(Path(keeper.name), coordination)
        rows = coordination.run(
            lambda c: {
                table.name: [dict(row) for row in c.execute(table.select()).mappings()]
                for table in schema.metadata.sorted_tables
            }
        )
    return Template(keeper, made.archive, made.backups, time.time(), rows)


@cache
def _template(others: tuple[str, ...]) -> Template:
    return kept(lambda folder, coordination: Replicas.begun(folder, coordination, *others))


_TIMES = ("active_until", "synced_at", "leader_until", "owned_until", "appended_at")


def _moved(row: dict[str, Any], old: Path, new: Path, age: float) -> dict[str, Any]:
    """Return a row as it would be of replicas in another folder, made so many seconds later."""
    later = {name: row[name] + age for name in _TIMES if row.get(name)}
    place = {"url": row["url"].replace(str(old), str(new))} if "url" in row else {}
    return {**row, **later, **place}


class OnS3(Replicas):
    """Replicas in the folders of a bucket, of the server that the environment names."""

    BUCKET = "replicas"

    @property
    def under(self) -> str:
        """Return the URL of the bucket."""
        return f"s3://{self.BUCKET}"


def remove(connection: sa.Connection, archive: str, name: str, *, force: bool = False) -> None:
    """Remove a replica from the store at once, without the entry that its removal is."""
    check_removable(connection, archive, name, force=force)
    forget(connection, archive, name)


def replica_rows(holdfast: RunCommand) -> dict[str, dict[str, object]]:
    """Return what `replica status` says of each replica of the only archive."""
    (archive,) = holdfast("replica", "status", "--json").value["archives"]
    return {row["name"]: row for row in archive["replicas"]}


def made_backup(
    store: ObjectStore, source: str, *, identity: str | None = None
) -> tuple[str, Callable[[State], Change]]:
    """Write the files of a backup; return its id, and what plans its commit.

    :param identity: None for one that no other made by this process has.
    """
    number = next(_numbers)
    block = _block(store, source, number, identity or f"{number:032x}")
    return block.id, lambda state: Change("backup", add=(block,), expected_ends={source: state.ends.get(source)})


def _block(store: ObjectStore, source: str, number: int, identity: str) -> Block:
    folder = f"data/{source}"

    def write(path: str, body: bytes) -> FileRecord:
        with store.open_write(path) as file:
            file.write(body)
        return FileRecord(path=path, size=len(body), sha256=hashlib.sha256(body).hexdigest())

    rows = write(f"{folder}/16384/snapshot/{identity}/00000-{number:012x}.parquet", b"rows of %d " % number * 50)
    catalog = write(f"{folder}/schema/snapshot/{identity}/catalog-{number:012x}.json", b"{}")
    table = TableRecord(id="16384", table_schema="public", name="t", rows=1, digest="1:1", files=(rows,))
    block = make_block(
        identity=identity,
        source=source,
        position=f"0/{number:X}",
        at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=number),
        tables=(table,),
    )
    return block.model_copy(update={"catalog": catalog})
