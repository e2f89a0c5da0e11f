"""`holdfast hold`: points that stay whatever the rules say."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime, timedelta

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand


@pytest.fixture
def backed_up(store: ObjectStore) -> ObjectStore:
    """An archive of three full backups, a day apart."""
    archive = Archive.open(store)
    for day in range(3):
        at = datetime(2026, 3, 1 + day, 12, tzinfo=UTC)
        change = Change(kind="backup", add=(make_block(identity=f"b{day}", position=f"0/{day + 1}00", at=at),))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    return store


def test_what_is_held_survives_a_truncation_until_it_is_taken_back(
    holdfast: RunCommand, backed_up: ObjectStore
) -> None:
    added = holdfast("hold", "add", backed_up.url, "--at", "commit:1", "--reason", "the audit of 2026", "--json")
    assert (added.code, added.value["commit"], added.value["at"]) == (0, 4, "2026-03-01T12:00:00.000000Z")
    assert added.value["owner"] == f"{getpass.getuser()}@{socket.gethostname()}"
    identity = added.value["hold"]
    assert holdfast("truncate", backed_up.url, "--keep", "last=1", "--json").value["blocks_removed"] == 1
    plan = holdfast("truncate", backed_up.url, "--keep", "last=1", "--dry-run", "--json").value
    assert [each["why"] for each in plan["sources"][0]["points"]] == [[f"hold {identity}"], ["last=1", "last chain"]]
    removed = holdfast("hold", "remove", backed_up.url, identity, "--reason", "it is over")
    assert removed.code == 0
    assert (
        removed.out == f"commit 6: removed: hold {identity} keeps shop_db at 2026-03-01T12:00:00.000000Z, lsn:0/100\n"
    )
    assert Archive.open(backed_up).commit(6).reason == "it is over"
    assert holdfast("truncate", backed_up.url, "--keep", "last=1", "--json").value["blocks_removed"] == 1


def test_holds_are_listed_with_who_answers_for_them_and_why(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    assert holdfast("hold", "list", backed_up.url).out == "no holds\n"
    for at, reason in (("commit:2", "case [7]"), ("2026-03-01T12:00:00Z", "an audit")):
        done = holdfast("hold", "add", backed_up.url, "--at", at, "--reason", reason, "--owner", "legal", "--source",
                        "shop_db")  # fmt: skip
        assert done.out.startswith("commit ")
    first, second = holdfast("hold", "list", backed_up.url, "--json").value["holds"]
    assert (first["position"], first["owner"], first["reason"], first["restorable"]) == (
        "0/100", "legal", "an audit", True,
    )  # fmt: skip
    assert abs(datetime.now(UTC) - datetime.fromisoformat(second["created"])) < timedelta(minutes=5)
    shown = holdfast("hold", "list", backed_up.url).out
    assert "2026-03-01T12:00:00.000000Z" in shown
    assert "case [7]" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--at", "2026-03-01T13:00:00Z"), 5, "after it 2026-03-02T12:00:00.000000Z (commit:2)"),
        (("--at", "commit:9"), 5, "it has: commit:1, commit:2, commit:3"),
        (("--at", "soon"), 2, "cannot read 'soon' as a moment"),
        (("--at", "latest", "--source", "crm"), 2, "no backups of 'crm'"),
    ],
)
def test_what_cannot_be_held_is_refused(
    holdfast: RunCommand, backed_up: ObjectStore, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = holdfast("hold", "add", backed_up.url, *arguments, "--reason", "why not")
    assert (done.code, said in done.err) == (code, True)


def test_a_hold_needs_a_reason_and_can_be_taken_back_once(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    assert holdfast("hold", "add", backed_up.url, "--at", "latest").code == 2
    assert holdfast("hold", "add", backed_up.url, "--at", "latest", "--reason", " ").code == 2
    done = holdfast("hold", "remove", backed_up.url, "nobody", "--reason", "why not")
    assert (done.code, "there is no hold 'nobody' (there are: none)" in done.err) == (2, True)
