"""Digest of a schema's definitions alone: TRUNCATE alters the server's catalog, and no definition."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.dump.dump_entries import read_entries

if TYPE_CHECKING:
    from holdfast.postgresql.catalog.catalog import Catalog

_OF_ROWS: Final = frozenset({"filenode", "toast", "pages", "size", "estimated_rows"})

_NO_DEFINITIONS: Final = frozenset(
    {"sequences", "large_objects", "large_object_groups", "configuration", "database_settings"}
)
"""Parts of a catalog's record of rows, or of the database itself: that there is a sequence is in the dump."""


def schema_digest(catalog: Catalog, dump: bytes) -> str:
    """Return a digest that is equal for equal definitions; "" without a suitable pg_restore.

    :param catalog, dump: of one snapshot.
    """
    try:
        entries = read_entries(dump, server_version=catalog.server_version)
    except HoldfastError:
        return ""
    definitions = [
        catalog.model_dump(mode="json", exclude={"tables", *_NO_DEFINITIONS}),
        [table.model_dump(mode="json", exclude=set(_OF_ROWS)) for table in catalog.tables],
        [
            (entry.section, entry.class_oid, entry.oid, entry.kind, entry.full_name, entry.sql, entry.settings)
            for entry in entries
        ],
    ]
    return hashlib.sha256(json.dumps(definitions, sort_keys=True).encode()).hexdigest()
