"""Base of an archive's documents, and the records of files and tables that they share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from holdfast.archive.format.checksum import add_checksum, check_checksum, wrong_checksum
from holdfast.archive.format.versions import CHECKSUMS_SINCE
from holdfast.common.errors import DamagedError


def iso(moment: datetime) -> str:
    """Format a time as ISO 8601 with microseconds, in UTC (`Z`)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _possible(moment: datetime) -> datetime:
    """Return a time that can be reckoned with, in any zone and with any span; raises ValueError."""
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"no backup is of the year {moment.year}")
    return moment


_FIRST_YEAR, _LAST_YEAR = 1970, 9000

Moment = Annotated[AwareDatetime, AfterValidator(_possible), PlainSerializer(iso, when_used="json")]
"""A point in time with its zone; written as ISO 8601 in UTC with microseconds."""

Position = Annotated[str, Field(pattern="^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$")]
"""A position in a source's log, as PostgreSQL writes it."""

TableId = Annotated[str, Field(pattern="^[0-9]{1,20}$")]  # the oid of a table, as text

Count = Annotated[int, Field(ge=0, lt=1 << 53)]  # a number of bytes, rows or others

SourceName = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$")]
"""The name of a source, which becomes a folder, and part of the names of locks and runs."""


def _inside(path: str) -> str:
    if not _PATH.fullmatch(path) or not {"", ".", ".."}.isdisjoint(path.partition("#")[0].split("/")):
        raise ValueError(f"{path[:100]!r} is no path of a file of an archive")
    return path


_PATH = re.compile(r"[^#?\\\x00-\x1f\x7f]{1,1000}(#[0-9]{1,18})?")

_FilePath = Annotated[str, AfterValidator(_inside)]


class Document(BaseModel):
    """Base of all stored documents: immutable JSON; a later format may add fields, which are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_bytes(self) -> bytes:
        return self.model_dump_json(indent=1).encode()

    @classmethod
    def from_bytes(cls, body: bytes, key: str) -> Self:
        """Parse a stored document; DamagedError: the bytes under `key` are none."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the document"
            raise DamagedError(
                f"{key} is damaged or not ours: {place}: {first['msg'].removeprefix('Value error, ')}. "
                "Restore this object from a copy of the archive."
            ) from error


class ChecksummedDocument(Document):
    """Document that carries its own checksum, since nothing else does.

    From format 2 on it must; of format 1 there are some that were written before there were any.
    """

    format: int

    def to_bytes(self) -> bytes:
        return add_checksum(super().to_bytes())

    @classmethod
    def from_bytes(cls, body: bytes, key: str) -> Self:
        is_checked = check_checksum(body, key)
        document = super().from_bytes(body, key)
        if document.format >= CHECKSUMS_SINCE and not is_checked:
            raise wrong_checksum(key, "its checksum is not there")
        return document


_PART = "#"


def part_path(pack: str, offset: int) -> str:
    return f"{pack}{_PART}{offset}"


class FileRecord(Document):
    """One immutable file of a block."""

    path: _FilePath  # key in the store; of a part of a pack, the pack's key, `#`, and the offset of its first byte
    size: Count  # bytes
    sha256: str  # of the file's bytes, in hex; checked at every read
    rows: Count = 0  # rows in it, for a data file
    digest: str | None = None  # the additive content hash of those rows (`rows:sum`)
    key_range: tuple[str, str] | None = None
    """Least and greatest value of the first key column, as text; None where unknown."""
    # of a data file its last bytes, which tell of its columns and pages: how many, `:`, and their SHA-256 in hex; None
    # where an earlier version wrote it
    footer: str | None = None

    @property
    def key(self) -> str:
        return self.path.partition(_PART)[0]

    @property
    def offset(self) -> int | None:
        """Return the file's offset in its pack; None for an object of its own."""
        _, mark, offset = self.path.partition(_PART)
        return int(offset) if mark else None

    @property
    def page_bytes(self) -> int:
        return self.size - int((self.footer or "0").partition(":")[0])


class TableRecord(Document):
    """Rows of one table in a block; `id` names its folder and its entry in the catalog record.

    In a block of changes its rows are changes of one form of the table: a table whose columns were changed between two
    of them has several records.
    """

    id: TableId
    table_schema: str
    name: str
    rows: Count
    digest: str  # the additive content hash of the rows; "" for changes
    files: tuple[FileRecord, ...]
    columns: tuple[dict[str, Any], ...] = ()
    """Of that form, as the source describes them; empty in a snapshot, where the catalog has them."""
    key: tuple[int, ...] = ()  # numbers of the columns that tell rows apart; empty where only all of them together do
    # first, last: log positions of the first and last commit with changes in it
    first: Position | None = None
    last: Position | None = None

    @property
    def label(self) -> str:
        return f"{self.table_schema}.{self.name}"
