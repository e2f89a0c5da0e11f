"""A backup's job is started again where it was killed, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Stream
from holdfast.archive.format.runs import RunLog, read_last
from holdfast.common.errors import HoldfastError, OutcomeUnknownError, RefusedError, SparkEndedError, SparkNeededError
from holdfast.operations import backup_run
from holdfast.operations.backup_decision import Decision
from holdfast.operations.executor_choice import Executor
from holdfast.operations.job_process import SNAPSHOT_VARIABLE
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from tests.support.no_waiting import no_waiting

ADDRESS = Address("postgresql://me@here/shop", "s3cret")

Play = Callable[[ObjectStore], str]
"""Plays one job: returns the sentence its driver ended with."""


@dataclass
class World:
    """What happens, and what has happened.

    :param problems: what goes wrong each time a snapshot is taken, if anything.
    :param gone: why the snapshot that is held is not held any more.
    :param given: the snapshots that jobs were given.
    """

    store: ObjectStore
    problems: list[Exception | None] = field(default_factory=list)
    gone: str = ""
    taken: int = 0
    held: int = 0
    given: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, *plays: Play, executor: Executor = "auto") -> None:
        jobs = iter(plays)

        def attempt(more: Mapping[str, str]) -> str:
            self.given.append(more.get(SNAPSHOT_VARIABLE, ""))
            return next(jobs)(self.store)

        wanted = BackupRequest(source="shop_db")
        backup_run.run_to_the_end(
            self.store, "r", ADDRESS, request=wanted, attempt=attempt, say=self.said.append, executor=executor
        )
        assert list(jobs) == []
        assert self.held == 0

    @contextmanager
    def hold_snapshot(self, address: Address, *, ddl_waits: bool) -> Iterator[SimpleNamespace]:
        problem = self.problems.pop(0) if self.problems else None
        if problem:
            raise problem
        self.taken += 1
        self.held += 1
        self.gone = ""
        snapshot = SimpleNamespace(to_json=lambda name=f"s{self.taken}": name)
        try:
            yield SimpleNamespace(snapshot=snapshot, why_gone=lambda: self.gone)
        finally:
            self.held -= 1


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(Archive.create(open_store(str(tmp_path / "archive")), name="shop").store)
    monkeypatch.setattr(backup_run, "hold_snapshot", found.hold_snapshot)
    monkeypatch.setattr(backup_run, "database_bytes", lambda address: 0)
    monkeypatch.setattr(backup_run, "decide", lambda store, address, wanted, say: Decision())
    no_waiting(monkeypatch)
    return found


def succeed(store: ObjectStore) -> str:
    with RunLog(store, "r", "backup") as log:
        log.result = {"commit": 1}
    return ""


def die(store: ObjectStore) -> str:
    RunLog(store, "r", "backup").progress("reading tables")
    return ""


def fail(error: Exception) -> Play:
    def play(store: ObjectStore) -> str:
        with pytest.raises(type(error)), RunLog(store, "r", "backup"):
            raise error
        return str(error)

    return play


def test_a_job_that_succeeds_is_started_once(world: World) -> None:
    world.run(succeed)
    assert (world.given, world.said) == (["s1"], [])


@pytest.mark.parametrize("play", [die, fail(SparkEndedError("Spark's Java process has ended"))])
def test_a_job_that_was_killed_is_started_again_in_the_same_snapshot(world: World, play: Play) -> None:
    world.run(play, play, succeed)
    assert world.given == ["s1", "s1", "s1"]
    assert [words[-16:] for words in world.said] == ["(attempt 2 of 3)", "(attempt 3 of 3)"]
    record = read_last(world.store, "r")
    assert record is not None
    assert record.said == tuple(world.said)


def test_a_job_that_is_killed_each_time_is_given_up(world: World) -> None:
    world.run(die, die, die)
    assert len(world.said) == 2


def test_a_job_that_could_say_how_it_ended_is_not_started_again(world: World) -> None:
    world.run(fail(HoldfastError("a value is too large")))
    assert world.said == []


@pytest.mark.parametrize("error", [RefusedError("no"), OutcomeUnknownError("look first")])
def test_a_job_whose_failure_stays_is_not_started_again_though_its_snapshot_is_gone(
    world: World, error: Exception
) -> None:
    def play(store: ObjectStore) -> str:
        world.gone = "cut"
        return fail(error)(store)

    world.run(play)


def test_a_job_that_found_no_room_for_its_record_but_said_why_is_not_started_again(world: World) -> None:
    def play(store: ObjectStore) -> str:
        die(store)
        return "No room left to write"

    world.run(play)


def test_a_job_that_never_began_is_not_started_again(world: World) -> None:
    world.run(lambda store: "")


def hand_over(store: ObjectStore) -> str:
    with RunLog(store, "r", "backup"):
        raise SparkNeededError("more than 100,000 changes")


def test_a_spark_that_does_not_start_after_a_job_was_handed_over_to_it_is_not_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_run, "database_bytes", lambda address: 0)
    monkeypatch.setattr(backup_run, "decide", lambda store, address, wanted, say: Decision(kind="changes"))
    world.run(hand_over, lambda store: "", executor="inline")
    assert world.said == []


def test_a_job_that_is_killed_after_it_was_handed_over_to_spark_is_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_run, "database_bytes", lambda address: 0)
    monkeypatch.setattr(backup_run, "decide", lambda store, address, wanted, say: Decision(kind="changes"))
    world.run(hand_over, die, succeed, executor="inline")
    assert [words[-16:] for words in world.said] == ["(attempt 2 of 3)"]


def test_a_job_that_was_killed_after_its_commit_is_done(world: World) -> None:
    def play(store: ObjectStore) -> str:
        die(store)
        block = make_block().model_copy(update={"run": "r"})
        Archive.open(store).add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
        return ""

    world.run(play)


@pytest.mark.parametrize("play", [die, fail(HoldfastError("the work ended: server closed the connection"))])
def test_a_job_whose_snapshot_is_gone_is_started_again_in_a_new_one_with_the_reason(world: World, play: Play) -> None:
    def cut(store: ObjectStore) -> str:
        world.gone = "server closed the connection unexpectedly"
        return play(store)

    # A server that was restarted does not answer at once.
    world.problems = [None, HoldfastError("cannot connect"), psycopg.OperationalError("starting up"), None]
    world.run(cut, succeed)
    assert (world.given, world.taken) == (["s1", "s2"], 2)
    (said,) = world.said
    assert "starting again from the beginning" in said
    assert "server closed the connection unexpectedly" in said


def test_why_no_snapshot_could_be_taken_is_in_the_record(world: World) -> None:
    world.problems = [psycopg.errors.OutOfMemory("too many\nclients")]
    with pytest.raises(HoldfastError, match=r"no snapshot of postgresql://me@here/shop .*: too many clients"):
        world.run()
    record = read_last(world.store, "r")
    assert record is not None
    assert record.error is not None
    assert "too many clients" in record.error.message


def test_why_a_job_could_not_be_started_is_in_the_record(world: World) -> None:
    def refuse(store: ObjectStore) -> str:
        raise HoldfastError("Spark needs Java 17 or 21")

    with pytest.raises(HoldfastError, match="Spark needs Java"):
        world.run(refuse)
    record = read_last(world.store, "r")
    assert record is not None
    assert (record.state, record.error and record.error.message) == ("failed", "Spark needs Java 17 or 21")


def test_why_the_source_could_not_be_asked_for_its_log_is_in_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(address: Address) -> object:
        raise HoldfastError("cannot connect to shop")

    stream = Stream(slot="s", position="0/10", publication="s", publication_oid=1)
    monkeypatch.setattr(backup_run, "database_bytes", lambda address: 0)
    monkeypatch.setattr(backup_run, "decide", lambda *_: Decision(kind="changes", stream=stream))
    monkeypatch.setattr(backup_run, "connect", connect)
    with pytest.raises(HoldfastError, match="cannot connect to shop"):
        world.run()
    record = read_last(world.store, "r")
    assert record is not None
    assert (record.state, record.error and record.error.message) == ("failed", "cannot connect to shop")


def test_an_interrupted_wait_for_the_server_ends_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(store: ObjectStore) -> str:
        world.gone = "cut"
        world.problems = [KeyboardInterrupt()]  # type: ignore[list-item]
        return die(store)

    with pytest.raises(KeyboardInterrupt):
        world.run(cut, succeed)
    assert (world.taken, world.held) == (1, 0)
