"""What the stand-in for spark-submit does in the place of a job: what FAKE_SPARK says, under the locks of the task.

Its arguments, environment and the locks it finds are noted in FAKE_SPARK_NOTE, and each of its processes' ids.
"""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block, Stream
from holdfast.archive.format.runs import RunLog
from holdfast.archive.locks import attach
from holdfast.common.errors import RefusedError, UsageError
from holdfast.storage import ObjectStore, open_store
from locking import inspect

Ends = int | str
"""How it ends: an exit code; `killed`; or `hangs`, not at all."""


@dataclass(frozen=True)
class Job:
    """One start of it.

    :param argv, env, pids: what its process was given, and the ids of that and of its child.
    """

    argv: list[str]
    env: dict[str, str]
    pids: list[int]

    @property
    def part(self) -> str:
        """What it is to do."""
        return self.env["FAKE_SPARK"]

    @property
    def note(self) -> Path:
        return Path(self.env["FAKE_SPARK_NOTE"])

    def argument(self, name: str) -> str:
        """Return the value of an option of the application."""
        return self.argv[self.argv.index(name) + 1]

    def store(self) -> ObjectStore:
        return open_store(self.argument("--archive"), self.env.get("HOLDFAST_KEY"))

    def starts(self) -> int:
        """Return how often it was started."""
        return len(self.note.with_suffix(".starts").read_text().splitlines())

    def run(self) -> Ends:
        """Note what is found, and play the part."""
        store = self.store()
        attach(store, self.env["HOLDFAST_LOCKS"]).check()
        held = sorted(
            f"{info.resource} {info.mode} {info.owner.task_id if info.owner else ''}" for info in inspect(store)
        )
        note = {"argv": self.argv, "env": self.env, "locks": held, "pids": self.pids}
        with self.note.with_suffix(".starts").open("a") as starts:
            starts.write(self.env.get("HOLDFAST_SNAPSHOT", "") + "\n")
        self.note.with_suffix(".part").write_text(json.dumps(note))
        self.note.with_suffix(".part").rename(self.note)
        if self.part == "no java":
            return 1
        try:
            return self._play(RunLog(store, self.argument("--run"), "backup"))
        except (RefusedError, UsageError) as error:
            return error.exit_code

    def _play(self, log: RunLog) -> Ends:
        part = self.part
        with ExitStack() as ending:
            ending.enter_context(log)
            if part in ("refuse", "bad usage"):
                raise {"refuse": RefusedError, "bad usage": UsageError}[part](f"asked to {part}: do something else")
            log.progress("reading tables", rows=5)
            if part == "tell":
                log.result = json.loads(self.env["FAKE_RESULT"])
                return 0
            if part in ("hang", "die", "orphan") or (part == "die once" and self.starts() == 1):
                ending.pop_all()  # the log is not told of it
                return "hangs" if part == "hang" else "killed"
            archive = Archive.open(self.store())
            block = self._block(archive)
            change = Change(kind="backup", add=(block,), expected_ends={"shop_db": archive.state.ends.get("shop_db")})
            commit = archive.add(lambda state: change, check=lambda: None, fence=None)
            if part == "refuse after changes":
                raise RefusedError(f"asked to {part}: do something else")
            if part == "die after the commit":
                ending.pop_all()
                return "killed"
            log.result = {
                "commit": commit.sequence + (part == "boast"),
                "block": "another" if part == "swap" else block.id,
                "kind": "changes" if part == "changes" else "full",
                "rows": 7,
                "bytes": 70,
                "restorable_to": "2026-03-01T12:00:00Z",
                "position": "0/100",
                "restored_to": "2026-03-01T12:00:00Z",
                "tables": 2,
                "seconds": 1.5,
                **({"dry_run": True, "plan": {"tables": []}} if part == "plan" else {}),
                **(self._begun() if part == "changes" else {}),
            }
        return 1 if part == "fail after the commit" else 0

    def _block(self, archive: Archive) -> Block:
        """Return the block of the run: changes where its first job is to back up such."""
        block = make_block().model_copy(update={"run": self.argument("--run")})
        if self.part == "begin anew":
            return block.model_copy(update={"gap": "the slot is gone"})
        if self.part not in ("changes", "refuse after changes") or self.starts() > 1:
            return block
        stream = Stream(slot="s", position="0/50", publication="s", publication_oid=1)
        stream = stream.model_copy(update={"not_followed": {"public.late": "its key was changed"}})
        covers = block.covers.model_copy(update={"from_position": archive.state.streams.get("shop_db")})
        return block.model_copy(update={"kind": "changes", "stream": stream, "covers": covers})

    def _begun(self) -> dict[str, object]:
        """Return what a job of changes tells of tables to begin with, and later ones that these were begun with."""
        if self.starts() == 1:
            return {"to_begin": {"public.late": "its key was changed", "public.new": "it has no snapshot yet"}}
        first = next(iter(Archive.open(self.store()).state.blocks.values()))
        return {"commit": first.commit, "block": first.block.id, "begun": ["public.late"]}


def _answer(connection: socket.socket) -> None:
    with connection.makefile("rb") as told:
        job = Job(**json.loads(told.read()))
    said = f"the job says: the password is {job.env.get('PGPASSWORD')}\n"
    if job.part == "no java":
        said += "JAVA_HOME is not set\n"
    answer: dict[str, Any] = {"said": said, "ends": 1}
    try:
        answer["ends"] = job.run()
    except Exception as error:  # noqa: BLE001 - it ends as a process would
        answer["said"] += f"{type(error).__name__}: {error}\n"
    with suppress(BrokenPipeError):  # the process that asked was killed meanwhile
        connection.sendall(json.dumps(answer).encode())


@contextmanager
def answering() -> Iterator[str]:
    """Be the job of each stand-in that is started; return what FAKE_SPARK_ANSWERS is to say."""
    name = f"holdfast-{uuid.uuid4().hex}"

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                if ended.is_set():
                    return
                _answer(connection)

    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        server = threading.Thread(target=serve)
        server.start()
        try:
            yield name
        finally:
            ended.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(f"\0{name}")
                server.join()
