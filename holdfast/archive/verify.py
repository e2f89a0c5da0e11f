"""Verification: is everything that the commits name there, and is it what was written?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.archive import commit_key
from holdfast.archive.blocks import read_batches, read_file
from holdfast.archive.runs import RunRecord
from holdfast.errors import DamagedError
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.archive import Archive
    from holdfast.archive.model import FileRecord

_READERS = 2


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it was written, and what it costs.

    :param what: the file, and what is wrong with it.
    :param table: `schema.table`, "schema" for the files that describe the schema, "the backup" for a commit.
    :param commit: the restore point it belongs to.
    """

    what: str
    table: str
    source: str
    commit: int

    def __str__(self) -> str:
        return f"{self.what}; it holds {self.table} of {self.source}, restore point commit:{self.commit}"


@dataclass(frozen=True)
class Verification:
    """What was looked at and what was found."""

    commits: int
    blocks: int
    files: int
    size: int
    deep: bool
    damage: tuple[Damage, ...]


def verify(
    archive: Archive, *, deep: bool = False, on_file: Callable[[FileRecord], None] = lambda record: None
) -> Verification:
    """Check an opened archive (opening has checked the chain of commits).

    That the newest commits are missing shows in no chain: there the records of the runs that made them bear witness.

    :param deep: read every file: checksum, Parquet pages and row count; else compare sizes with one listing.
    :param on_file: called for every file that was checked.
    """
    named = list(_named_files(archive))
    sizes = {} if deep else {found.key: found.size for found in archive.store.list("data/").objects}

    def check(item: tuple[FileRecord, str, str, int]) -> Damage | None:
        record, table, source, commit = item
        said = _read(archive, record) if deep else _compare_size(record, sizes.get(record.path))
        on_file(record)
        return Damage(said, table, source, commit) if said else None

    with ThreadPoolExecutor(_READERS) as pool:
        damage = tuple(found for found in pool.map(check, named) if found)
    lost = tuple(_lost_commits(archive))
    return Verification(
        commits=len(archive.commits),
        blocks=len(archive.state.blocks),
        files=len(named) + len(lost),
        size=sum(record.size for record, *_ in named),
        deep=deep,
        damage=lost + damage,
    )


def _lost_commits(archive: Archive) -> Iterator[Damage]:
    """Yield the commits that a run says it made after the newest one that is there, and that are not there."""
    since = archive.commits[-1].committed_at if archive.commits else None
    last = {found.key.rpartition("/")[0]: found for found in archive.store.list("runs/").objects}
    for found in last.values():
        if since is not None and found.modified < since:
            continue
        try:
            result = RunRecord.from_bytes(archive.store.get(found.key), found.key).result or {}
        except DamagedError:  # nothing that can be restored depends on it
            continue
        number = result.get("commit")
        if isinstance(number, int) and number > len(archive.commits) and not _is_there(archive, commit_key(number)):
            what = f"{commit_key(number)} is missing, which {found.key} says was made: put it back from a copy"
            yield Damage(what, "the backup", str(result.get("source")), number)


def _is_there(archive: Archive, key: str) -> bool:
    try:
        archive.store.head(key)
    except ObjectNotFound:
        return False
    return True


def _named_files(archive: Archive) -> Iterator[tuple[FileRecord, str, str, int]]:
    """Yield every file once, with what it holds, of which source, and the commit that named it first."""
    seen: set[str] = set()
    for placed in archive.state.blocks.values():
        block = placed.block
        tables = {file.path: table.label for table in block.tables for file in table.files}
        for file in block.files():
            if file.path not in seen:
                seen.add(file.path)
                yield file, tables.get(file.path, "schema"), block.source.name, placed.commit


def _compare_size(record: FileRecord, size: int | None) -> str | None:
    if size is None:
        return f"{record.path} is missing"
    if size != record.size:
        return f"{record.path} has {size} bytes instead of {record.size}"
    return None


def _read(archive: Archive, record: FileRecord) -> str | None:
    try:
        if record.path.endswith(".parquet"):
            for _ in read_batches(archive.store, record):
                pass
        else:
            read_file(archive.store, record)
    except DamagedError as error:
        return str(error)
    return None
