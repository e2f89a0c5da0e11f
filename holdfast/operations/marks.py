"""Marks: names for positions in a source's log, with its objects at each of them in the archive.

The log has rows alone. So the process that sets a mark reads the definitions, too, and leaves them in an object of its
own, written once: the next backup of changes ends a block with the mark, as where a full backup was taken. A migration
after it then takes nothing from the state before it. Such an object counts for nothing before a backup has taken it
over, and no two have one name: writing one needs no lock.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import psycopg

from holdfast.archive.format.block import Block, Stream  # noqa: TC001 - pydantic reads them at run time
from holdfast.archive.format.document import Moment, SealedDocument
from holdfast.archive.format.versions import FORMAT
from holdfast.archive.history.timeline import stream_tip
from holdfast.common.errors import DamagedError, HoldfastError, RefusedError, UsageError, sentence
from holdfast.common.lsn import parse_position
from holdfast.operations.backup_decision import born_tables, describe_stream, without
from holdfast.sources.postgresql.catalog.catalog import Catalog
from holdfast.sources.postgresql.connection.session import connect, server_error
from holdfast.sources.postgresql.dump.programs import below_floor
from holdfast.sources.postgresql.logical.flush_position import MARK_PREFIX, emit, insert_position, schema_fingerprint
from holdfast.sources.postgresql.logical.objects_read import ObjectsRead, read_objects
from holdfast.sources.postgresql.logical.stream import Seen, look, stream_name
from holdfast.sources.postgresql.logical.stream_state import database_oid
from holdfast.storage.contract.strangers import without_strangers
from locking.store import MOST_OBJECTS, ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.archive import Archive
    from holdfast.sources.postgresql.connection.address import Address
    from holdfast.sources.postgresql.logical.stream_state import StreamState
    from holdfast.storage import ObjectStore

    Connection = psycopg.Connection[tuple[Any, ...]]

FOLDER: Final = "marks"
_RECORD: Final = re.compile(rf"{FOLDER}/[^/]+/[0-9a-f]{{16}}-[0-9a-f]{{12}}\.json")

_LONGEST_NAME = 100

_CHANGED = "definitions, or temporary tables, were changed just then"

TRIES = 3
"""So often a mark is set anew where definitions were changed just then: of several of one name the newest counts."""


class MarkRecord(SealedDocument):
    """The objects of a source as they were at a mark, for the next backup of changes.

    :param position: just behind the mark's transaction, or others that ended with it; definitions are the same from
        `since` on.
    :param at: when it was reached, by the server's clock.
    :param stream: as it was.
    :param system_identifier, timeline, database_oid: of the database.
    :param catalog: our record of the objects, as JSON.
    :param dump: of the schema, as pg_dump wrote it, in base64; None where `schema_version` is the newest block's.
    """

    format: int = FORMAT
    name: str
    position: str
    since: str
    at: Moment
    stream: Stream
    system_identifier: str | None
    timeline: int | None
    database_oid: int
    catalog: str
    dump: str | None
    schema_version: str
    schema_digest: str
    not_included: tuple[str, ...] = ()

    def objects(self) -> ObjectsRead:
        """Return the objects as they were read."""
        dump = None if self.dump is None else base64.b64decode(self.dump)
        catalog = Catalog.model_validate_json(self.catalog)
        seen = Seen(self.stream.snapshot, self.stream.definitions)
        return ObjectsRead(catalog, self.schema_version, dump, self.schema_digest, self.not_included, seen)

    def follows(self, last: Block) -> bool:
        """Return whether the mark is of the same stream and database as a block of changes."""
        if last.stream is None or last.source.database_oid not in (None, self.database_oid):
            return False
        mine = (self.stream.slot, self.stream.publication_oid, self.system_identifier, self.timeline)
        stream, source = last.stream, last.source
        return mine == (stream.slot, stream.publication_oid, source.system_identifier, source.timeline)


@dataclass(frozen=True)
class SetMark:
    """A mark that was set.

    :param why_unknown: why the objects at it are not known; "" where they are.
    """

    position: str
    at: datetime
    why_unknown: str = ""


def check_name(name: str) -> None:
    """Check that a name can be a mark's, and means nothing else to `--at`.

    :raises UsageError: it cannot.
    """
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise UsageError(f"a mark's name has 1 to {_LONGEST_NAME} printable characters, and no blank at its ends")
    meaning = name.partition(":")[0].lower()
    is_time = False
    with suppress(ValueError):
        is_time = datetime.fromisoformat(name) is not None
    if is_time or meaning in ("latest", "commit", "lsn", "mark"):
        raise UsageError(f"{name!r} means something else to --at: choose another name for the mark")


def set_mark(
    archive: Archive,
    stores: Sequence[ObjectStore],
    address: Address,
    source: str,
    name: str,
    *,
    tables: Sequence[str] = (),
    exclude: Sequence[str] = (),
    allow_unsafe_dumper: bool = False,
) -> SetMark:
    """Set a mark in a source, and store the source's objects in the archive.

    :param stores: of the archive's replicas: any of them may be the one that the next backup is made through.
    :param source: its name in the archive.
    :param tables, exclude: globs of the tables that are backed up.
    :param allow_unsafe_dumper: read definitions also by a pg_dump below its floor; else they are not known.
    :raises UsageError: a mark cannot be called so.
    :raises RefusedError: nobody reads the source's log into this archive.
    :raises HoldfastError: the source took no mark.
    """
    check_name(name)
    setting = _Setting(archive, address, source, tables, exclude, allow_unsafe_dumper)
    for _ in range(TRIES):
        mark, record = setting.set(name)
        if record is not None:
            return replace(mark, why_unknown=_leave(stores, source, record))
        if mark.why_unknown != _CHANGED:
            break
    return mark


@dataclass(frozen=True)
class _Setting:
    """A setter of marks in a source."""

    archive: Archive
    address: Address
    source: str
    tables: Sequence[str]
    exclude: Sequence[str]
    allow_unsafe_dumper: bool

    def set(self, name: str) -> tuple[SetMark, MarkRecord | None]:
        """Set a mark, and return it with a record of the objects, where these are known."""
        tip = stream_tip(self.archive.state, self.source)
        with connect(self.address) as session:
            before = _before(session)
            state = self._look(session)
            try:
                position, at = emit(session, MARK_PREFIX, json.dumps({"mark": name}))
            except psycopg.Error as error:
                raise server_error(f"{self.source} took no mark", error) from error
            mark = SetMark(position, at)
            if tip is None:
                return replace(mark, why_unknown="no backup of changes is here yet"), None
            if isinstance(before, HoldfastError):
                return replace(mark, why_unknown=sentence(before)), None
            unsafe, _ = below_floor("pg_dump", at_least=session.info.server_version // 10000, tls=self.address.tls)
            if unsafe and not self.allow_unsafe_dumper:
                return replace(mark, why_unknown=unsafe), None
            try:
                objects = read_objects(self.address, tip.head.schema_version)
                if objects.version != before.version:
                    return replace(mark, why_unknown=_CHANGED), None
                return mark, self._record(session, name, mark, before.position, state, objects)
            except (HoldfastError, psycopg.Error) as error:
                return replace(mark, why_unknown=sentence(error)), None

    def _look(self, session: Connection) -> StreamState:
        slot = stream_name(self.archive.identity.id, self.source)
        state = look(session, slot)
        if state is None or state.lost or not state.usable:
            raise RefusedError(
                f"nobody would read the mark: {self.source}'s changes are not backed up into this archive "
                f"({f'slot {slot} is lost' if state else f'it has no slot {slot}'}): begin with "
                "holdfast backup … --kind changes"
            )
        return state

    def _record(
        self, session: Connection, name: str, mark: SetMark, since: str, state: StreamState, objects: ObjectsRead
    ) -> MarkRecord:
        return MarkRecord(
            name=name,
            position=mark.position,
            since=since,
            at=mark.at,
            stream=self._stream(session, state, objects),
            system_identifier=state.system_identifier,
            timeline=state.timeline,
            database_oid=database_oid(session),
            catalog=objects.catalog.model_dump_json(),
            dump=None if objects.dump is None else base64.b64encode(objects.dump).decode(),
            schema_version=objects.version,
            schema_digest=objects.digest,
            not_included=objects.not_included,
        )

    def _stream(self, session: Connection, state: StreamState, objects: ObjectsRead) -> Stream:
        """Return the stream as a block of changes records it."""
        every = objects.catalog.with_rows()
        wanted = {table.oid for table in objects.catalog.with_rows(self.tables, self.exclude)}
        stream = without(describe_stream(state), {table.oid for table in every} - wanted)
        tip = stream_tip(self.archive.state, self.source)
        told = {
            "not_followed": tip.head.stream.not_followed if tip and tip.head.stream else {},
            "born": born_tables(session, self.archive.state, self.source, stream),
        }
        return stream.model_copy(update={**told, **objects.seen._asdict()})


@dataclass(frozen=True)
class _Before:
    """The version of the definitions, and a position of the log behind the changes that led to it."""

    version: str
    position: str


def _before(session: Connection) -> _Before | HoldfastError:
    """Return the version of the definitions, or the error of reading it.

    The mark is set all the same.
    """
    try:
        return _Before(schema_fingerprint(session), insert_position(session))
    except HoldfastError as error:
        return error
    except psycopg.Error as error:
        return server_error("its catalog could not be read", error)


def pending(store: ObjectStore, source: str) -> dict[str, MarkRecord | None]:
    """Return the pending records of a source's marks, by key.

    None stands for a damaged one: less is known of that mark.
    """
    found: dict[str, MarkRecord | None] = {}
    listed = store.list(_folder(source), most=MOST_OBJECTS).objects
    for info in without_strangers(store.url, _folder(source), listed, _RECORD.fullmatch):
        with suppress(ObjectNotFound):
            body = store.get(info.key)
            try:
                found[info.key] = MarkRecord.from_bytes(body, info.key)
            except DamagedError:
                found[info.key] = None
    return found


def forget(store: ObjectStore, found: Mapping[str, MarkRecord | None], last: Block) -> None:
    """Remove the records of marks that the archive has reached, or cannot use.

    Only a backup of the source does this, under its lock. A record that stays for an error is removed by the next one.

    :param found: as `pending` returned it.
    :param last: the source's newest block of changes.
    """
    for key, record in found.items():
        is_reached = record and parse_position(record.position) <= parse_position(last.covers.to_position)
        if record is None or is_reached or not record.follows(last):
            with suppress(StoreError):
                store.delete(key)


def _folder(source: str) -> str:
    return f"{FOLDER}/{source}/"


def _leave(stores: Sequence[ObjectStore], source: str, record: MarkRecord) -> str:
    """Write a mark's record into every replica; return the failures in words."""
    key = f"{_folder(source)}{parse_position(record.position):016x}-{secrets.token_hex(6)}.json"
    left = []
    for store in stores:
        try:
            store.create(key, record.to_bytes())
        except (StoreError, HoldfastError) as error:
            left.append(f"{store.url} took no record of it ({sentence(error)})")
    return "; ".join(left)
