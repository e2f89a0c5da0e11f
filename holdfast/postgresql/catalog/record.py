"""Base class of all parts of the catalog record."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.common.errors import DamagedError


class CatalogRecord(BaseModel):
    """Base of the catalog record's parts: immutable, and tolerant of unknown fields.

    A later release may add fields; this one ignores them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def from_bytes(cls, body: bytes, path: str) -> Self:
        """Parse a stored record.

        :param path: of its file.
        :raises DamagedError: the bytes are no such record.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise damaged_record(path, error) from error


def damaged_record(path: str, error: ValidationError) -> DamagedError:
    """Return the error for a file that has the bytes that its commit names, and is not what a backup writes."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "the record"
    return DamagedError(
        f"{path} is not what a backup writes: {place}: {first['msg']}. Restore the commits folder and this object from "
        "a copy of the archive."
    )
