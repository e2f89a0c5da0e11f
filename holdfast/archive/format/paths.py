"""Source and block as named in the paths of data files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.common.errors import RefusedError

if TYPE_CHECKING:
    from holdfast.archive.format.block import Block

_FILE: Final = re.compile(
    r"data/(?P<source>[A-Za-z0-9][A-Za-z0-9._-]{0,120})/[^/]+/(?:snapshot|changes)/(?P<block>[0-9a-f]{32})/"
    r"[^/]+-[0-9a-f]{12}\.(?:parquet|json|dump|pack(?:#[0-9]+)?)"
)


class DataPath(NamedTuple):
    """The source and the block that a file was written for."""

    source: str
    block: str


def place_of(path: str) -> DataPath | None:
    """Return the source and block that a path names; None: not as backups name their files."""
    found = _FILE.fullmatch(path)
    return DataPath(found["source"], found["block"]) if found else None


def check_rows(block: Block) -> None:
    """Refuse a block with unlisted packs, or a backup that names another block's files of rows.

    Vacuum asks only blocks that were made of others.
    """
    parts = {file.key for table in block.tables for file in table.files if file.offset is not None}
    if unlisted := sorted(parts - {pack.path for pack in block.packs}):
        raise RefusedError(f"block {block.id} names rows in {unlisted[0]}, and not that pack")
    if block.parts or block.after is not None:
        return
    for table in block.tables:
        for file in table.files:
            place = place_of(file.path)
            if place is not None and place.block != block.id:
                raise RefusedError(f"block {block.id} names {file.path}, which was written for another block")
