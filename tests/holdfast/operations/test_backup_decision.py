"""Whether a backup is of the database whose backups are here, and how a stream is begun anew that is stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.archive.format.block import Stream
from holdfast.archive.history import restore_points
from holdfast.common.errors import RefusedError, UsageError
from holdfast.operations import backup_decision
from holdfast.operations.backup_decision import Decision
from holdfast.operations.job_process import DECISION_VARIABLE
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import Followed, agree, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TABLE = ("create table t (id int primary key, v bytea)", "insert into t values (1, 'one')")


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database with a table, and an archive without backups."""
    with open_followed(address, tmp_path / "archive") as made:
        made.make(TABLE)
        yield made


def moved(followed: Followed, address: Address) -> None:
    """Let the source's address name another database, which has the table, too."""
    followed.session.close()
    followed.address = address
    followed.session = connect(address)
    followed.session.execute("set search_path = public")
    followed.make(TABLE)


def test_a_decision_of_any_size_comes_to_the_driver() -> None:
    """Its stream names each table: of 10,000, a variable of the environment would have no room."""
    stream = Stream(
        slot="s",
        position="0/1",
        opened=True,
        publication="s",
        publication_oid=1,
        followed={oid: oid + 1 for oid in range(100_000, 120_000)},
    )
    decision = Decision(kind="changes", stream=stream)
    with decision.handed_over() as handed:
        assert Decision.read(handed[DECISION_VARIABLE]) == decision
    assert [Path(name).exists() for name in handed.values()] == [False]


def test_what_is_no_decision_is_refused(tmp_path: Path) -> None:
    assert Decision.read(None) == Decision()
    for text in (None, "", '{"kind": "none"}'):
        if text is not None:
            (tmp_path / "decision").write_text(text)
        with pytest.raises(UsageError, match="describes no backup: start jobs with a command or an operator"):
            Decision.read(str(tmp_path / "decision"))


def test_who_backs_up_as_a_superuser_is_told_what_to_do_instead(followed: Followed) -> None:
    said: list[str] = []
    backup_decision.decide(followed.store, followed.address, BackupRequest(source="shop", kind="full"), said.append)
    (warning,) = said
    assert warning.startswith("postgres is a superuser, and backups need to read only: make a role")
    followed.session.execute("create role unprivileged login password 'p'")
    try:
        role = Address(followed.address.url.replace("postgres@", "unprivileged@"), "p")
        backup_decision.decide(followed.store, role, BackupRequest(source="shop", kind="full"), said.append)
    finally:
        followed.session.execute("drop role unprivileged")
    assert said == [warning]


@pytest.mark.representatives("changes")
@pytest.mark.parametrize("kind", ["full", "changes"])
def test_another_database_is_backed_up_only_where_somebody_says_it_is_the_same(
    followed: Followed, new_database: NewDatabase, kind: str
) -> None:
    followed.back_up(kind)
    source = followed.archive().state.blocks
    (block,) = (placed.block for placed in source.values())
    oid = followed.session.execute("select oid::int8 from pg_database where datname = current_database()").fetchone()
    assert (block.source.database_oid,) == oid
    moved(followed, new_database())
    with pytest.raises(RefusedError, match=r"is a different database .* its oid is \d+, the other is \d+.*--moved"):
        followed.back_up(kind)
    assert followed.archive().state.sequence == 1
    result = followed.back_up(kind, "--moved")
    assert (result["kind"], result["commit"]) == ("full", 2)
    followed.run("insert into t values (2, 'two')")
    assert followed.back_up(kind)["commit"] == 3
    if kind == "changes":
        agree(followed, 1)
        (gap,) = restore_points.describe(followed.archive().state)["sources"][0]["gaps"]
        assert "the database was moved: its oid is" in gap["reason"] or "slot" in gap["reason"]


def test_another_server_is_told_by_its_identifier(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    followed.back_up("full")
    monkeypatch.setattr(backup_decision, "system_identifier", lambda session: "7000000000000000001")
    with pytest.raises(RefusedError, match="its server is system 7000000000000000001, the other is"):
        followed.back_up("full")


def test_a_database_of_which_no_oid_was_recorded_is_told_by_its_name(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, new_database: NewDatabase
) -> None:
    followed.back_up("full")
    (placed,) = followed.archive().state.blocks.values()
    record = placed.block.source.model_copy(update={"database_oid": None})
    assert backup_decision._why_other(record, str(record.system_identifier), 5, record.database) == ""
    assert "it is called other" in backup_decision._why_other(record, str(record.system_identifier), 5, "other")


def test_a_stream_is_restarted_by_a_full_backup_where_somebody_asks_for_it(followed: Followed) -> None:
    followed.back_up("changes")
    followed.run("insert into t values (2, 'two')")
    result = followed.back_up("changes", "--restart-stream", "now")
    assert result["kind"] == "full"
    followed.run("insert into t values (3, 'three')")
    assert followed.back_up()["kind"] == "changes"
    (gap,) = restore_points.describe(followed.archive().state)["sources"][0]["gaps"]
    assert gap["reason"] == "a new stream was begun: as requested (--restart-stream)"
    agree(followed, 1)


def test_a_new_source_beside_others_is_begun_only_where_somebody_says_that_it_is_one(followed: Followed) -> None:
    """A mistaken name of a database would make one, and its backups of nothing would look like good ones."""
    followed.back_up("full")
    with pytest.raises(RefusedError, match=r"and none of a source 'crm': correct .*--new-source.*archives\.yaml"):
        followed.back_up("full", "--source", "crm")
    assert followed.archive().state.sequence == 1
    wanted = BackupRequest(source="crm", kind="full", new_source=True)
    assert backup_decision.decide(followed.store, followed.address, wanted, print).kind == "snapshot"
