"""Marks: which names they may have, and the records of what the objects were at each, until a backup has them."""

from __future__ import annotations

import base64
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, State
from holdfast.archive.format.block import Block, Mark, Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.common.errors import UsageError
from holdfast.config.archives_model import ArchiveConfig, SourceConfig
from holdfast.operations import marks
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.marks import FOLDER, AnnouncedMark, MarkRecord, check_name, forget, pending, tell_apart
from holdfast.operations.requests.mark import MarkRequest
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreDenied
from tests.support.archives.evolving import NOON, catalog, table
from tests.support.signers import signing
from tests.support.stores.memory_store import MemoryStore

STREAM = Stream(slot="s", position="0/80", publication="s", publication_oid=5, snapshot="1:2:", definitions="told")


@pytest.mark.parametrize("name", ["before 4.2", "v5", "Überprüfung", "commitment", "x" * 100, "2026 release", "7"])
def test_a_name_is_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "x" * 101,
            "two\nlines",
            " blank",
            "blank ",
            "bell\a",
            "latest",
            "Latest",
            "commit:4",
            "lsn:0/1",
            "mark:x",
        ),
        *("2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 00:00+02:00", "20260101", "LSN:0/1"),
    ],
)
def test_a_name_that_means_something_else_or_cannot_be_read_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


def record(position: str = "0/100", **more: Any) -> MarkRecord:
    told = {
        "name": "before 4.2", "position": position, "since": "0/90", "at": NOON, "stream": STREAM,
        "system_identifier": "7", "timeline": 1, "database_oid": 16384, "catalog": catalog(table(1)).model_dump_json(),
        "dump": base64.b64encode(b"PGDMP").decode(), "schema_version": "v", "schema_digest": "d",
        "not_included": ("a view",), **more,
    }  # fmt: skip
    return MarkRecord.model_validate(told)


def block(position: str = "0/100", oid: int | None = 16384, **stream: Any) -> Block:
    """Return the newest block of changes of the same stream."""
    made = make_block(position=position)
    source = made.source.model_copy(update={"database_oid": oid})
    return made.model_copy(update={"stream": STREAM.model_copy(update=stream), "source": source})


def test_the_objects_at_a_mark_are_read_as_they_were_kept() -> None:
    found = MarkRecord.from_bytes(record().to_bytes(), "key").objects()
    assert (found.catalog, found.version, found.dump, found.digest) == (catalog(table(1)), "v", b"PGDMP", "d")
    assert (found.not_included, found.seen) == (("a view",), ("1:2:", "told"))
    assert record(dump=None).objects().dump is None


@pytest.mark.parametrize(
    ("last", "follows"),
    [
        (block(), True),
        (block(position="0/200"), True),
        (block(oid=None), True),  # an older release has not recorded it
        (block(oid=1), False),
        (block(slot="t"), False),
        (block(publication_oid=6), False),
        (block().model_copy(update={"stream": None}), False),
    ],
)
def test_a_mark_follows_a_block_of_the_same_stream_of_the_same_database(last: Block, *, follows: bool) -> None:
    assert record().follows(last) is follows


@pytest.mark.parametrize("other", [{"system_identifier": "8"}, {"timeline": 2}])
def test_a_mark_of_another_server_follows_nothing(other: dict[str, Any]) -> None:
    assert not record(**other).follows(block())


def mark_key(of: str) -> str:
    """Return the key of a mark's record: `shop/1` stands for source and position."""
    source, number = of.split("/")
    return f"{FOLDER}/{source}/{int(number):016x}-{int(number):012x}.json"


@pytest.fixture
def store() -> MemoryStore:
    """A store with records of two sources, one of them damaged."""
    made = MemoryStore()
    for key, body in {
        "shop/1": record("0/100").to_bytes(),
        "shop/2": record("0/200").to_bytes(),
        "shop/3": record("0/300").to_bytes()[:-9],
        "shop_db/1": record("0/100").to_bytes(),
    }.items():
        made.put(mark_key(key), body)
    return made


def test_records_of_a_source_are_found_and_a_damaged_one_is_told_from_them(store: MemoryStore) -> None:
    assert pending(store, "shop", {}).records == {
        mark_key("shop/1"): record("0/100"),
        mark_key("shop/2"): record("0/200"),
        mark_key("shop/3"): None,
    }
    assert pending(store, "sho", {}).records == {}


def test_one_that_goes_while_they_are_read_is_not_there(store: MemoryStore) -> None:
    class Going(MemoryStore):
        def get(self, key: str) -> bytes:
            self.delete(key)
            return super().get(key)

    going = Going()
    going.put(mark_key("shop/1"), b"")
    assert pending(going, "shop", {}).records == {}


def test_what_the_archive_has_reached_or_cannot_use_is_removed(store: MemoryStore) -> None:
    store.put(mark_key("shop/4"), record("0/900", timeline=2).to_bytes())
    forget(store, pending(store, "shop", {}), block(position="0/100"), State())
    assert store.keys(FOLDER) == {mark_key("shop/2"), mark_key("shop_db/1")}


def test_one_that_cannot_be_removed_is_left_for_the_next_backup() -> None:
    class Strict(MemoryStore):
        def delete(self, key: str) -> None:
            raise StoreDenied(key)

    store = Strict()
    store.put(mark_key("shop/1"), record().to_bytes())
    forget(store, pending(store, "shop", {}), block(), State())
    assert store.keys() == {mark_key("shop/1")}


IDS = ("a" * 32, "b" * 32)


def announce(store: ObjectStore, *names: str) -> None:
    for identity, name in zip(IDS, names, strict=False):
        store.create(f"{FOLDER}/shop/{identity}.json", AnnouncedMark(id=identity, name=name).to_bytes())


def seen(name: str = "m", identity: str = "", position: str = "0/95") -> Mark:
    return Mark(name=name, id=identity, position=position, at=NOON)


def holding(*marks: Mark) -> State:
    made = block().model_copy(update={"marks": marks})
    source = made.source.model_copy(update={"name": "shop"})
    return State(blocks={made.id: Placed(made.model_copy(update={"source": source}), 1)})


def test_a_mark_counts_by_its_announcement_and_nothing_else_does() -> None:
    store = MemoryStore()
    announce(store, "m", "n")
    ours, others = tell_apart(
        store, "shop", State(), [seen("m", IDS[0]), seen("m"), seen("m", "c" * 32), seen("other", IDS[1]), seen("")]
    )
    assert ours == (seen("m", IDS[0]),)
    assert [(each.name, each.id) for each in others] == [
        ("m", ""), ("m", "c" * 32), ("other", IDS[1]), ("", "")
    ]  # fmt: skip


def test_an_announcement_makes_one_mark_whoever_repeats_it() -> None:
    store = MemoryStore()
    announce(store, "m")
    first, again = seen("m", IDS[0]), seen("m", IDS[0], "0/200")
    assert tell_apart(store, "shop", State(), [first, again]) == ((first,), (again,))
    assert tell_apart(store, "shop", holding(first), [again]) == ((), (again,))


@pytest.mark.parametrize(
    ("mark", "counts"),
    [
        (seen("before 4.2"), True),
        (seen("before 4.2", position="0/100"), True),
        (seen("before 4.2", position="0/101"), False),
        (seen("before 4.2", position="0/90"), False),
        (seen("before 4.3"), False),
        (seen("before 4.2", IDS[0]), False),
    ],
)
def test_one_by_an_earlier_release_counts_by_the_record_that_it_left(mark: Mark, *, counts: bool) -> None:
    store = MemoryStore()
    store.put(mark_key("shop/1"), record("0/100").to_bytes())
    assert bool(tell_apart(store, "shop", State(), [mark]).ours) is counts


def test_in_a_signed_archive_only_signed_announcements_and_records_count(tmp_path: Path) -> None:
    place = str(tmp_path / "archive")
    us = open_store(place, None, signing(tmp_path / "key"))
    Archive.create(us, name="shop")
    announce(open_store(place), "m")
    forged = {mark_key("shop/1"): record("0/100").to_bytes()}
    for key, body in forged.items():
        open_store(place).create(key, body)
    said: list[str] = []
    assert pending(us, "shop", {}, said.append).records == {}
    assert said == [f"{mark_key('shop/1')} is not signed by a known key: it does not count"]
    marks = [seen("m", IDS[0]), seen("before 4.2")]
    assert tell_apart(us, "shop", State(), marks) == ((), tuple(marks))
    vouched = {key: sha256(body).hexdigest() for key, body in forged.items()}
    assert tell_apart(us, "shop", State(documents=vouched), marks).ours == (marks[1],)


def test_an_announcement_goes_once_its_mark_is_archived_or_was_never_set() -> None:
    store = MemoryStore()
    announce(store, "m", "n")
    last = block().model_copy(update={"source": block().source.model_copy(update={"name": "shop"})})
    forget(store, pending(store, "shop", {}), last, State())
    assert len(store.keys(FOLDER)) == 2
    forget(store, pending(store, "shop", {}), last, holding(seen("m", IDS[0])))
    assert store.keys(FOLDER) == {f"{FOLDER}/shop/{IDS[1]}.json"}
    store.advance(timedelta(days=2))
    forget(store, pending(store, "shop", {}), last, State())
    assert store.keys(FOLDER) == set()


ADDRESS = Address("postgresql://me@db.example/shop")


@pytest.mark.parametrize("why", ["", "no pg_dump"])
def test_a_mark_is_set_by_the_sources_settings_in_each_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    near = Archive.create(open_store(str(tmp_path / "near")), name="shop")
    asked: dict[str, Any] = {}

    def set_mark(archive: Archive, stores: Any, address: Address, source: str, name: str, **more: Any) -> marks.SetMark:
        asked.update(
            archive=archive.store.url, stores=[store.url for store in stores], source=source, name=name, **more
        )
        return marks.SetMark("0/1", archive.identity.created, why)

    monkeypatch.setattr(marks, "set_mark", set_mark)
    urls = {name: str(tmp_path / name) for name in ("near", "far")}
    replicas = ArchiveContext.resolve(ArchiveConfig(replicas=urls)).replicas
    source = SourceConfig(url=ADDRESS.url, tables=["a.*"], exclude=["a.b"])
    summary = marks.mark_source(replicas, MarkRequest(name="before 4.2", source="shop_db"), source, ADDRESS)
    assert asked == {
        "archive": near.store.url, "stores": list(urls.values()), "source": "shop_db", "name": "before 4.2",
        "tables": ["a.*"], "exclude": ["a.b"],
    }  # fmt: skip
    assert (summary["mark"], summary["source"], summary["position"]) == ("before 4.2", "shop_db", "0/1")
    assert (summary["schema_known"], summary["schema_note"]) == (not why, why)
