"""A replica is told from the log's line: behind it, on it, beyond it, or on another one."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from holdfast.archive.format.last_seen import LastSeen
from holdfast.archive.format.model import LogPlace
from holdfast.replication.log import line, schema
from holdfast.replication.log.replicas import LogState, log_state, register
from holdfast.replication.log.store import CoordinationStore

BEYOND, OTHER = "has executed entry 3", "follows the log of store elsewhere, which the coordination store does not know"


@pytest.fixture
def store(coordination: CoordinationStore) -> CoordinationStore:
    """A log of two entries, which it goes on from an older store's first."""

    def fill(c: sa.Connection) -> None:
        register(c, LogState("a", "shop", "new", head=1, start=2), name="near", url="/near", ends={}, streams={})
        line.write_line(c, "a", {1: "e1"}, {"old": 1})
        c.execute(schema.archives.update().values(head=2))
        line.note(c, "a", 2, "e2")

    coordination.run(fill)
    return coordination


def place(index: int, entry: str = "", log: str = "new", **more: object) -> LogPlace:
    return LogPlace.model_validate({"store": log, "replica": "far", "index": index, "entry": entry, **more})


@pytest.mark.parametrize(
    ("here", "said"),
    [
        (place(0), ""),
        (place(1, "e1"), ""),
        (place(2, "e2"), ""),
        (place(2), ""),
        (place(3, "e3"), BEYOND),
        (place(3), BEYOND),
        (place(1, "other"), "has executed entry 1 (other), which the coordination store does not know"),
        (place(1, "e1", "old"), ""),
        (place(2, "x2", "old"), "has executed entry 2 (x2)"),
        (place(1, "x1", "old"), "has executed entry 1 (x1)"),
        (place(0, "", "elsewhere"), OTHER),
        (place(3, "e3", set_aside=True), ""),
        (place(3, "e3", "elsewhere", set_aside=True), OTHER),
        (place(1, "e1", reached=2, reached_entry="e2"), ""),
        (place(1, "e1", reached=2, reached_entry="x2"), "has executed entry 2 (x2)"),
        (place(1, "e1", reached=3), "has executed entry 3 ()"),
        (place(1, "e1", passed=True), ""),  # trimmed: nobody knows any more
        (place(2, "e2", passed=True), "has passed entry 2 (e2), whose failure the coordination store does not know"),
        (place(3, "e3", recovering=True, recovery="r"), BEYOND),
        (place(0, "r", recovering=True), ""),  # by an earlier release
    ],
)
def test_what_contradicts_the_log_is_said(store: CoordinationStore, here: LogPlace, said: str) -> None:
    told = store.run(lambda c: line.contradiction(c, log_state(c, "a"), here))
    assert told.startswith(said)
    assert bool(told) == bool(said)


def test_ids_and_stores_are_kept(store: CoordinationStore) -> None:
    assert store.run(lambda c: line.entry_ids(c, "a")) == {1: "e1", 2: "e2"}
    assert store.run(lambda c: line.stores_before(c, "a")) == {"old": 1}
    assert store.run(lambda c: line.entry_id(c, "a", 9)) is None


NUMBERED = {
    LastSeen: {"sequence": "commit", "index": "entry"},
    LogPlace: {"index": "entry", "reached": "reached_entry", "acknowledged": "entry", "base": ""},
}
"""Fields that say how far something is, each with that of the id. `base` says where a log began, not how far it is."""


@pytest.mark.parametrize("document", NUMBERED)
def test_whatever_an_archive_or_a_machine_remembers_by_number_has_the_id_of_it(document: type[BaseModel]) -> None:
    fields = {name: str(field.annotation) for name, field in document.model_fields.items()}
    numbers = {name for name, words in fields.items() if "int" in words and "dict" not in words}
    assert numbers == NUMBERED[document].keys()
    assert {name for name in NUMBERED[document].values() if name} <= fields.keys()
