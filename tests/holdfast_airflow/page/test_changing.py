"""Routes that change an archive: who may, and the traces that they leave in the archive and in Airflow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.models.log import Log
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.archive.locks.break_lock import read_breaks
from holdfast.storage import ObjectStore
from holdfast_airflow.page import changing
from locking import RWLock, inspect
from tests.support.airflow.page import Browsed
from tests.support.archives.blocks_without_rows import add

HOLDS = "/api/archives/shop/holds"
HOLD = {"source": "shop_db", "at": "latest", "reason": " before the move "}


def audited(page: Browsed) -> list[tuple[str, str, str, str]]:
    rows = page.airflow.session.scalars(select(Log)).all()
    return [(str(row.event), str(row.owner), str(row.dag_id), str(row.extra)) for row in rows]


@pytest.fixture
def filled(store: ObjectStore) -> ObjectStore:
    add(Archive.open(store), make_block(at=datetime.now(UTC) - timedelta(hours=1)))
    return store


def test_a_restore_point_is_held_and_released_in_the_users_name(page: Browsed, filled: ObjectStore) -> None:
    made = page.post(HOLDS, HOLD)
    assert made.status_code == 200, made.text
    [hold] = Archive.open(filled).state.holds.values()
    assert (hold.owner, hold.reason, made.json()["hold"]) == ("olga", "before the move", hold.id)
    done = page.post(f"{HOLDS}/{hold.id}/release", {"reason": "moved"})
    assert (done.status_code, done.json()) == (200, {"hold": hold.id})
    archive = Archive.open(filled)
    assert archive.state.holds == {}
    assert "moved (olga)" in str(archive.commit(archive.state.sequence))
    assert audited(page) == [
        ("holdfast_hold", "olga", "restore_shop", "shop_db at latest: before the move"),
        ("holdfast_release_hold", "olga", "restore_shop", f"{hold.id}: moved"),
    ]
    assert list(inspect(filled)) == []


def test_a_lock_is_broken_with_a_record_that_names_the_user(page: Browsed, store: ObjectStore) -> None:
    lock = RWLock(store, "maintenance").write(purpose="vacuum")
    txn = lock.txn
    answer = page.post(f"/api/archives/shop/locks/{txn}/break", {"reason": "its machine burnt down"})
    assert answer.status_code == 200, answer.text
    [record] = read_breaks(store)
    assert record.result is not None
    assert (record.result["by"]["user"], record.result["reason"]) == ("olga", "its machine burnt down")
    assert audited(page) == [("holdfast_break_lock", "olga", "restore_shop", f"{txn}: its machine burnt down")]
    assert list(inspect(store)) == []


def break_database(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have Airflow's database refuse so many writes, as SQLite does while others write."""
    works: Any = vars(changing)["create_session"]
    refusals = iter(range(times))

    @contextmanager
    def session() -> Iterator[Session]:
        with works() as usable:
            yield usable
            if next(refusals, None) is not None:
                usable.expunge_all()
                raise OperationalError("INSERT INTO log", {"owner": "olga"}, Exception("database is locked"))

    monkeypatch.setattr(changing, "create_session", session)
    monkeypatch.setattr(time, "sleep", lambda _: None)


def test_a_database_that_is_busy_for_a_moment_is_asked_again(
    page: Browsed, filled: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_database(monkeypatch, 2)
    assert page.post(HOLDS, HOLD).status_code == 200
    assert [row[0] for row in audited(page)] == ["holdfast_hold"]


def test_nothing_is_changed_where_the_audit_log_cannot_be_written(
    page: Browsed, filled: ObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    break_database(monkeypatch, 100)
    answer = page.post(HOLDS, HOLD)
    assert (answer.status_code, "nothing was begun: try again" in answer.json()["error"]) == (503, True)
    assert "olga" not in answer.text
    assert "database is locked" in caplog.text
    assert (Archive.open(filled).state.holds, audited(page)) == ({}, [])


CHANGES: list[tuple[str, dict[str, Any]]] = [
    (HOLDS, HOLD),
    (f"{HOLDS}/{'0' * 12}/release", {"reason": "moved"}),
    (f"/api/archives/shop/locks/{'0' * 32}/break", {"reason": "it burnt down"}),
]


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_who_may_not_or_sends_no_header_of_the_page_changes_nothing(
    page: Browsed, filled: ObjectStore, path: str, body: dict[str, Any]
) -> None:
    before = Archive.open(filled).state.sequence
    assert page.post(path, body, header=None).status_code == 403
    page.rights.methods = {"GET"}
    assert page.post(path, body).status_code == 403
    assert (Archive.open(filled).state.sequence, audited(page)) == (before, [])


def test_breaking_a_lock_needs_the_right_on_connections(page: Browsed, store: ObjectStore) -> None:
    page.rights.connections = False
    lock = RWLock(store, "maintenance").write(purpose="vacuum")
    assert page.post(f"/api/archives/shop/locks/{lock.txn}/break", {"reason": "x"}).status_code == 403
    lock.check()
    lock.release()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (HOLDS, {**HOLD, "reason": "  "}, 422),
        (HOLDS, {**HOLD, "reason": "x" * 501}, 422),
        (HOLDS, {**HOLD, "more": 1}, 422),
        (HOLDS, {**HOLD, "at": "commit:99"}, None),
        (f"{HOLDS}/nothing/release", {"reason": "x"}, 422),
        (f"{HOLDS}/{'0' * 12}/release", {"reason": " "}, 422),
        (f"/api/archives/shop/locks/{'0' * 32}/break", {"reason": ""}, 422),
        (f"{HOLDS}/{'0' * 12}/release", {"reason": "x"}, 422),
        ("/api/archives/shop/locks/x/break", {"reason": "x"}, 422),
        (f"/api/archives/shop/locks/{'0' * 32}/break", {"reason": "x"}, None),
    ],
)
def test_what_cannot_be_done_is_told_and_done_in_no_part(
    page: Browsed, filled: ObjectStore, path: str, body: dict[str, Any], status: int | None
) -> None:
    answer = page.post(path, body)
    assert answer.status_code == status if status else answer.status_code in (409, 422)
    assert Archive.open(filled).state.sequence == 1
    assert list(inspect(filled)) == []
