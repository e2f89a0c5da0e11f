"""Present objects of a source, with their definitions as pg_dump writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump import dump_schema
from holdfast.postgresql.dump.dump_entries import schema_digest
from holdfast.postgresql.logical import stream as streams
from holdfast.postgresql.snapshot.export import export_plain
from holdfast.postgresql.snapshot.obstacles import obstacles, refuse
from holdfast.postgresql.snapshot.snapshot import open_snapshot

if TYPE_CHECKING:
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.connection.address import Address


@dataclass(frozen=True)
class ObjectsRead:
    """A source's objects, all of one snapshot.

    :param version: as `schema_fingerprint` returns it.
    :param dump: as pg_dump wrote it; None where the version is one that is known, as its digest is then.
    :param seen: what makes later changes of them known.
    """

    catalog: Catalog
    version: str
    dump: bytes | None
    digest: str
    not_included: tuple[str, ...]
    seen: streams.Seen


def read_objects(address: Address, known: str = "") -> ObjectsRead:
    """Read a source's objects.

    :param known: a version whose definitions the caller has.
    :raises RefusedError: the role lacks rights on some of them, all of which are named.
    """
    try:
        return _read_objects(address, known)
    except (psycopg.errors.InsufficientPrivilege, HoldfastError):
        # Of many that lack a right, the server and pg_dump name the first one only.
        with connect(address) as session:
            refuse(obstacles(session))
        raise


def _read_objects(address: Address, known: str) -> ObjectsRead:
    with export_plain(address) as snapshot, open_snapshot(address, snapshot) as held:
        version, seen = streams.schema_fingerprint(held.session), streams.seen(held.session)
        catalog, not_included = held.catalog, held.not_included
        if version == known:
            return ObjectsRead(catalog, version, None, "", not_included, seen)
        dump, warnings = dump_schema(address, snapshot, server_version=catalog.server_version)
    digest = schema_digest(catalog, dump)
    return ObjectsRead(catalog, version, dump, digest, not_included + warnings, seen)
