"""Marks: names for positions in a source's log, with its objects at each of them in the archive.

Every role that may log in can write a mark's message into the log. So a mark is first announced in the archive, under
an id that the message names; other messages do not count.

The log has rows only. So the process that sets a mark also reads the definitions, and stores them in an object of their
own: the next incremental backup ends a block with the mark, as a full backup would. The object has a unique name and
does not count before that backup, so writing it needs no lock.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from holdfast.archive import Archive
from holdfast.archive.format.block import Block, Mark, Stream
from holdfast.archive.format.document import ChecksummedDocument, Moment, iso
from holdfast.archive.format.versions import FORMAT
from holdfast.archive.history.coverage import stream_tip
from holdfast.common.errors import DamagedError, HoldfastError, RefusedError, UsageError, sentence
from holdfast.common.lsn import parse_position
from holdfast.operations.backup_decision import born_tables, describe_stream, without
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.session import connect, server_error
from holdfast.postgresql.logical.flush_position import emit, insert_position, schema_fingerprint
from holdfast.postgresql.logical.objects_read import ObjectsRead, read_objects
from holdfast.postgresql.logical.own_messages import LONGEST_NAME, MARK_PREFIX
from holdfast.postgresql.logical.stream import Seen, look, stream_name
from holdfast.postgresql.logical.stream_state import database_oid
from holdfast.storage.contract.strangers import without_strangers
from locking.store import MOST_OBJECTS, ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast.archive.format.state import State
    from holdfast.config.archives_model import SourceConfig
    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.operations.requests.mark import MarkRequest
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.logical.stream_state import StreamState
    from holdfast.storage import ObjectStore

FOLDER: Final = "marks"
_OURS: Final = re.compile(rf"{FOLDER}/[^/]+/([0-9a-f]{{16}}-[0-9a-f]{{12}}|[0-9a-f]{{32}})\.json")

_ID_BYTES = 16
_ANNOUNCED = re.compile(rf".*/([0-9a-f]{{{_ID_BYTES * 2}}})\.json")

_ANNOUNCED_FOR = timedelta(days=1)
"""Lifetime of an announcement; its message follows within moments, or never."""

_CHANGED = "definitions, or temporary tables, were changed just then"

TRIES = 3
"""Attempts at a mark while definitions change: of several with one name the newest counts."""


class AnnouncedMark(ChecksummedDocument):
    """A mark that is about to be set; its message in the log has the same id."""

    format: int = FORMAT
    id: str
    name: str


class MarkRecord(ChecksummedDocument):
    """The objects of a source as they were at a mark, for the next incremental backup.

    :param position: just after the mark's transaction, or others that ended with it; definitions are the same from
        `since` on.
    :param at: its time, by the server's clock.
    :param catalog: our record of the objects, as JSON.
    :param dump: of the schema, by pg_dump, in base64; None if `schema_version` is the newest block's.
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
        dump = None if self.dump is None else base64.b64decode(self.dump)
        catalog = Catalog.model_validate_json(self.catalog)
        seen = Seen(self.stream.snapshot, self.stream.definitions)
        return ObjectsRead(catalog, self.schema_version, dump, self.schema_digest, self.not_included, seen)

    def follows(self, last: Block) -> bool:
        """Return whether the mark is in the same stream and database as a block of changes."""
        if last.stream is None or last.source.database_oid not in (None, self.database_oid):
            return False
        mine = (self.stream.slot, self.stream.publication_oid, self.system_identifier, self.timeline)
        stream, source = last.stream, last.source
        return mine == (stream.slot, stream.publication_oid, source.system_identifier, source.timeline)


@dataclass(frozen=True)
class SetMark:
    """A mark that was set; `why_unknown` is the reason if its objects are not known."""

    position: str
    at: datetime
    why_unknown: str = ""


def check_name(name: str) -> None:
    """Raise UsageError for a name that is invalid, or means something else to `--at`."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise UsageError(f"a mark's name must have 1 to {LONGEST_NAME} printable characters, and no blank at its ends")
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
) -> SetMark:
    """Set a mark in a source, and store the source's objects in the archive.

    :param stores: of all replicas, since the next backup may go through any.
    :param tables, exclude: globs of the tables that are backed up.
    :raises UsageError: the name is invalid.
    :raises RefusedError: the source's changes are not backed up into this archive.
    :raises HoldfastError: the source rejected the mark, or all replicas the announcement.
    """
    check_name(name)
    archive.check_may_add()  # in a signed archive, an unsigned announcement does not count
    setting = _Setting(archive, stores, address, source, tables, exclude)
    for _ in range(TRIES):
        mark, record = setting.set(name)
        if record is not None:
            key = f"{_folder(source)}{parse_position(record.position):016x}-{secrets.token_hex(6)}.json"
            return replace(mark, why_unknown="; ".join({*setting.failures, *_create(stores, key, record)}))
        if mark.why_unknown != _CHANGED:
            break
    return replace(mark, why_unknown="; ".join((mark.why_unknown, *setting.failures)))


def mark_source(
    replicas: Sequence[ArchiveContext], request: MarkRequest, source: SourceConfig, address: Address
) -> dict[str, Any]:
    """Set a mark in a source, by its settings in archives.yaml, and return its summary; errors are `set_mark`'s."""
    stores = [replica.open() for replica in replicas]
    name, archive = request.source or "", Archive.open(stores[0])
    mark = set_mark(archive, stores, address, name, request.name, tables=source.tables, exclude=source.exclude)
    return {
        "mark": request.name,
        "source": name,
        "position": mark.position,
        "at": iso(mark.at),
        "schema_known": not mark.why_unknown,
        "schema_note": mark.why_unknown,
    }


@dataclass(frozen=True)
class _Setting:
    """A setter of marks in a source.

    :param failures: messages of replicas without the announcement: a backup through one does not know the mark.
    """

    archive: Archive
    stores: Sequence[ObjectStore]
    address: Address
    source: str
    tables: Sequence[str]
    exclude: Sequence[str]
    failures: list[str] = field(default_factory=list)

    def set(self, name: str) -> tuple[SetMark, MarkRecord | None]:
        """Set a mark, and return it with a record of the objects, if these are known."""
        tip = stream_tip(self.archive.state, self.source)
        with connect(self.address) as session:
            before = _before(session)
            state = self._look(session)
            identity = self._announce(name)
            try:
                position, at = emit(session, MARK_PREFIX, json.dumps({"mark": name, "id": identity}))
            except psycopg.Error as error:
                raise server_error(f"{self.source} rejected the mark", error) from error
            mark = SetMark(position, at)
            if tip is None:
                return replace(mark, why_unknown="there is no incremental backup yet"), None
            if isinstance(before, HoldfastError):
                return replace(mark, why_unknown=sentence(before)), None
            try:
                objects = read_objects(self.address, tip.head.schema_version)
                if objects.version != before.version:
                    return replace(mark, why_unknown=_CHANGED), None
                return mark, self._record(session, name, mark, before.position, state, objects)
            except (HoldfastError, psycopg.Error) as error:
                return replace(mark, why_unknown=sentence(error)), None

    def _announce(self, name: str) -> str:
        """Announce a mark in every replica, and return its id; raises HoldfastError if all fail."""
        announced = AnnouncedMark(id=secrets.token_hex(_ID_BYTES), name=name)
        self.failures[:] = _create(self.stores, f"{_folder(self.source)}{announced.id}.json", announced)
        if len(self.failures) == len(self.stores):
            raise HoldfastError(f"no mark was set: {'; '.join(self.failures)}")
        return announced.id

    def _look(self, session: Connection) -> StreamState:
        slot = stream_name(self.archive.identity.id, self.source)
        state = look(session, slot)
        if state is None or state.lost or not state.usable:
            raise RefusedError(
                f"no backup would read the mark: {self.source}'s changes are not backed up into this archive "
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
        chosen = {table.oid for table in objects.catalog.with_rows(self.tables, self.exclude)}
        stream = without(describe_stream(state), {table.oid for table in every} - chosen)
        tip = stream_tip(self.archive.state, self.source)
        options = {
            "not_followed": tip.head.stream.not_followed if tip and tip.head.stream else {},
            "born": born_tables(session, self.archive.state, self.source, stream),
        }
        return stream.model_copy(update={**options, **objects.seen._asdict()})


@dataclass(frozen=True)
class _Before:
    """The version of the definitions, and a position of the log after the changes that led to it."""

    version: str
    position: str


def _before(session: Connection) -> _Before | HoldfastError:
    """Return the version of the definitions, or the error of reading it: the mark is set regardless."""
    try:
        return _Before(schema_fingerprint(session), insert_position(session))
    except HoldfastError as error:
        return error
    except psycopg.Error as error:
        return server_error("its catalog could not be read", error)


class PendingMarks(NamedTuple):
    """Listed objects of a source's marks that the archive has not reached.

    :param records: by key; None for a damaged one.
    :param announced: the time of each announcement, by key.
    :param now: the store's time.
    """

    records: Mapping[str, MarkRecord | None]
    announced: Mapping[str, datetime]
    now: datetime


def pending(
    store: ObjectStore, source: str, vouched: Mapping[str, str], say: Callable[[str], None] = lambda words: None
) -> PendingMarks:
    """Return the pending objects of a source's marks.

    :param vouched: SHA-256 of objects that a commit vouches for, by key.
    :param say: takes a message for each that is not signed; it stays, and does not count.
    """
    listing = store.list(_folder(source), most=MOST_OBJECTS)
    infos = without_strangers(store.url, _folder(source), listing.objects, _OURS.fullmatch)
    announced = {info.key: info.modified for info in infos if _ANNOUNCED.fullmatch(info.key)}
    records: dict[str, MarkRecord | None] = {}
    for key in (info.key for info in infos if info.key not in announced):
        with suppress(ObjectNotFound):
            body = _believed(store, key, vouched)
            if body is None:
                say(f"{key} is not signed by a known key: it does not count")
                continue
            try:
                records[key] = MarkRecord.from_bytes(body, key)
            except DamagedError:
                records[key] = None
    return PendingMarks(records, announced, listing.now)


def forget(store: ObjectStore, marks: PendingMarks, last: Block, settled: State) -> None:
    """Remove the objects of marks that the archive has reached, or cannot use.

    A backup of the source calls it under its lock, once it has reached the end of the log as of the backup's begin. The
    next backup removes objects that stay for an error.

    :param last: the source's newest block of changes.
    :param settled: the archive's state without blocks that may be taken back.
    """
    reached = parse_position(last.covers.to_position)
    gone = [
        key
        for key, record in marks.records.items()
        if record is None or parse_position(record.position) <= reached or not record.follows(last)
    ]
    archived = {f"{_folder(last.source.name)}{identity}.json" for identity in _ids(settled, last.source.name)}
    gone += [key for key, at in marks.announced.items() if key in archived or marks.now - at > _ANNOUNCED_FOR]
    for key in gone:
        with suppress(StoreError):
            store.delete(key)


def _ids(state: State, source: str) -> Iterator[str]:
    """Yield the ids of a source's marks that are archived."""
    mine = (placed for placed in state.blocks.values() if placed.source == source)
    yield from (mark.id for placed in mine for mark in placed.head.marks if mark.id)


class SeenMarks(NamedTuple):
    """Marks in the log: those that were announced in the archive, and others."""

    ours: tuple[Mark, ...]
    others: tuple[Mark, ...]


def tell_apart(store: ObjectStore, source: str, state: State, seen: Sequence[Mark]) -> SeenMarks:
    """Separate marks that were set in the archive from others.

    Each announcement makes one mark: the first that names it. A mark of an earlier release, which announced none,
    counts by its record of the source's objects.
    """
    if not seen:
        return SeenMarks((), ())
    vouched = state.documents or {}
    names = _announced(store, source, vouched)
    for identity in _ids(state, source):
        names.pop(identity, None)
    records = [record for record in pending(store, source, vouched).records.values() if record]
    ours, others = list[Mark](), list[Mark]()
    for mark in seen:
        is_ours = names.pop(mark.id) == mark.name if mark.id in names else not mark.id and _has_record(records, mark)
        (ours if is_ours else others).append(mark)
    return SeenMarks(tuple(ours), tuple(others))


def _has_record(records: Sequence[MarkRecord], mark: Mark) -> bool:
    at = parse_position(mark.position)
    spans = ((parse_position(each.since), parse_position(each.position)) for each in records if each.name == mark.name)
    return any(since < at <= position for since, position in spans)


def _announced(store: ObjectStore, source: str, vouched: Mapping[str, str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for info in store.list(_folder(source), most=MOST_OBJECTS).objects:
        if _ANNOUNCED.fullmatch(info.key):
            with suppress(ObjectNotFound, DamagedError):
                body = _believed(store, info.key, vouched)
                if body is not None:
                    announced = AnnouncedMark.from_bytes(body, info.key)
                    names[announced.id] = announced.name
    return names


def _believed(store: ObjectStore, key: str, vouched: Mapping[str, str]) -> bytes | None:
    """Return the content of an object that is signed, or that a commit vouches for."""
    stored = store.read(key)
    if stored.is_believed or vouched.get(key) == hashlib.sha256(stored.body).hexdigest():
        return stored.body
    return None


def _folder(source: str) -> str:
    return f"{FOLDER}/{source}/"


def _create(stores: Sequence[ObjectStore], key: str, document: ChecksummedDocument) -> list[str]:
    """Write a document into every replica; return a message for each failure."""
    failures = []
    for store in stores:
        try:
            store.create(key, document.to_bytes())
        except (StoreError, HoldfastError) as error:
            failures.append(f"{store.url} has no record of it ({sentence(error)})")
    return failures
