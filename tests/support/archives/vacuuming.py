"""Archives in memory with files that may go and files that may not, and vacuums of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, locks
from holdfast.archive.files.data_files import new_attempt
from holdfast.archive.format.block import Block
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.maintenance.vacuum import Vacuumed, vacuum
from holdfast.storage import ObjectStore
from locking import Owner
from tests.support.stores.memory_store import MemoryStore

HOUR = timedelta(hours=1)
DAY = 24 * HOUR


def put_file(store: ObjectStore, block: str, *, source: str = "shop", table: str = "1", size: int = 10) -> FileRecord:
    """Store a file of a block under a name as backups give."""
    kind = "json" if table == "schema" else "parquet"
    path = f"data/{source}/{table}/snapshot/{block}/00000-{new_attempt()}.{kind}"
    store.put(path, b"x" * size)
    return FileRecord(path=path, size=size, sha256="0" * 64, rows=1)


def write_block(
    store: ObjectStore,
    *,
    source: str = "shop",
    tables: int = 2,
    catalog: FileRecord | None = None,
    shared: tuple[FileRecord, ...] = (),
    after: int | None = None,
) -> Block:
    """Store the files of a block, and return it.

    :param catalog: of an older block, where it has none of its own.
    :param shared: files of another block, as a table of this one.
    """
    block = uuid.uuid4().hex
    files = [(put_file(store, block, source=source, table=str(number)),) for number in range(tables)]
    records = tuple(
        TableRecord(id=str(number), table_schema="public", name=f"t{number}", rows=1, digest="", files=some)
        for number, some in enumerate([*files, shared] if shared else files)
    )
    made = make_block(identity=block, source=source, tables=records)
    own = catalog or put_file(store, block, source=source, table="schema")
    return made.model_copy(update={"catalog": own, "after": after})


def commit(store: ObjectStore, kind: str = "backup", **change: Any) -> int:
    """Commit a change, and return the commit's number."""
    return Archive.open(store).add(lambda state: Change(kind=kind, **change), check=lambda: None, fence=None).sequence


def run_vacuum(store: ObjectStore, *, wait: float = 0, grace: timedelta = DAY, **options: Any) -> Vacuumed:
    """Vacuum as the command does it."""
    with locks.acquire(store, "vacuum", owner=Owner(), purpose="test", wait=0) as held:
        return vacuum(Archive.open(store), check=held.check, fence=held.fence, grace=grace, wait=wait, **options)


def named_now(store: ObjectStore) -> set[str]:
    """Return the files that the blocks of an archive name."""
    return {file.path for placed in Archive.open(store).state.blocks.values() for file in placed.block.files()}


@dataclass
class Scene:
    """An archive with some of everything, all of it older than a day.

    :param needed: keys that must stay; `doomed`: those that must go.
    """

    store: MemoryStore
    needed: set[str] = field(default_factory=set)
    doomed: set[str] = field(default_factory=set)
    orphan: str = ""

    def paths(self, block: Block) -> set[str]:
        return {file.path for file in block.files()}


def scene() -> Scene:
    """Make an archive that has each kind of file that may go, beside those that may not."""
    store = MemoryStore()
    Archive.create(store, name="shop")
    made = Scene(store)
    kept, gone, old = write_block(store), write_block(store), write_block(store)
    other = write_block(store, source="crm")
    first = commit(store, add=(kept, other))
    commit(store, add=(gone,))
    commit(store, add=(old,))
    heir = write_block(store, catalog=gone.catalog)
    snapshot = write_block(store, tables=1, shared=old.tables[0].files, after=first)
    commit(store, add=(heir, snapshot))
    commit(store, "truncation", remove=(gone.id, old.id))
    for block in (kept, other, heir, snapshot):
        made.needed |= made.paths(block)
    made.doomed |= (made.paths(gone) | made.paths(old)) - made.needed
    made.orphan = uuid.uuid4().hex
    for table in ("1", "2", "schema"):
        made.doomed.add(put_file(store, made.orphan, table=table).path)
    for identity in (kept.id, gone.id):
        made.doomed.add(put_file(store, identity).path)
    made.doomed.add(put_file(store, kept.id, source="crm", size=3).path)
    commit(store, "vacuum", abandoned=("f" * 32,))
    made.doomed.add(put_file(store, "f" * 32).path)
    store.put("data/notes.txt", b"of somebody's")
    store.put("runs/backup-1/000000.json", b"{}")
    store.advance(DAY + HOUR)
    made.needed |= store.keys() - made.doomed
    return made
