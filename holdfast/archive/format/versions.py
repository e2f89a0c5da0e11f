"""Versions of the archive's format, and of the readers and writers that it admits."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

import holdfast
from holdfast.archive.format.checksum import check_checksum
from holdfast.common.errors import DamagedError

FORMAT = 2  # the newest format this release reads and writes, and the one of new archives
FORMATS = (1, 2)
"""1: commits alone. 2: checkpoints beside them, no document without a checksum, and blocks that stand for several."""

CHECKSUMS_SINCE = 2

WRITES = 7
"""The newest writers' version of this release.

2: format 2. 3: replicas, whose every commit follows an update log. 4: logs that say which quorums have succeeded, and
which replicas there are. 5: commits that are signed. 6: archives of
which every object is. 7: numbers that never count.
"""

REPLICAS_SINCE = 3  # the version of writers that know replicas
DECISIONS_SINCE = 4
"""The version of writers that know entries by which a quorum is acknowledged, or replicas are added and removed.

Older ones would take them for empty.
"""

SIGNED_SINCE = 6  # the version of writers, and of readers, that know archives of which every object is signed
READS = 7
"""The newest readers' version of this release. 2: format 2. 3: packs. 4: tables without a snapshot.

6: objects that are signed as a whole. 7: numbers that never count.
"""

VOID_SINCE = 7  # the version of readers and of writers that know numbers which never count
PACKS_SINCE = 3  # the version of readers that know packs
BORN_SINCE = 4  # the version of readers that know tables without a snapshot
BORN_IN = 2  # the format since which archives have such tables
PACKED_SINCE = 2  # archives of format 1 have none: those are kept for older releases
WRITER = f"holdfast {holdfast.__version__}"


class Versions(BaseModel):
    """Version fields that every future format keeps, read before anything else is believed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    min_reader: int = 1
    min_writer: int = 1


def read_versions(body: bytes, key: str) -> Versions:
    """Read the version fields of a document of any release; DamagedError: there are none, or it is damaged."""
    check_checksum(body, key)
    try:
        return Versions.model_validate_json(body)
    except ValidationError as error:
        raise DamagedError(
            f"{key} is damaged or not ours: it states no format. Restore this object from a copy of the archive."
        ) from error
