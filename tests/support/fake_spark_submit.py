"""Stands in for spark-submit: does what FAKE_SPARK says, under the locks its parent holds.

Notes its arguments, environment and the locks it finds in FAKE_SPARK_NOTE, and each of its processes' ids.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.locks import attach
from holdfast.archive.model import Block, Stream
from holdfast.archive.runs import RunLog
from holdfast.errors import RefusedError, UsageError
from holdfast.storage import open_store
from locking import inspect


def argument(name: str) -> str:
    """Return the value of an option of the application."""
    return sys.argv[sys.argv.index(name) + 1]


def main() -> int:
    """Play the part."""
    store = open_store(argument("--archive"))
    locks = attach(store, os.environ["HOLDFAST_LOCKS"])
    locks.check()
    held = sorted(f"{info.resource} {info.mode} {info.owner.task_id if info.owner else ''}" for info in inspect(store))
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    note = {"argv": sys.argv, "env": dict(os.environ), "locks": held, "pids": [os.getpid(), child.pid]}
    path = Path(os.environ["FAKE_SPARK_NOTE"])
    path.with_suffix(".part").write_text(json.dumps(note))
    path.with_suffix(".part").rename(path)
    with path.with_suffix(".starts").open("a") as starts:
        starts.write(os.environ.get("HOLDFAST_SNAPSHOT", "") + "\n")
    try:
        return play(os.environ["FAKE_SPARK"], RunLog(store, argument("--run"), "backup"))
    finally:
        if os.environ["FAKE_SPARK"] != "orphan":
            child.kill()


def starts() -> int:
    """Return how often this was started."""
    return len(Path(os.environ["FAKE_SPARK_NOTE"]).with_suffix(".starts").read_text().splitlines())


def the_block(part: str, archive: Archive) -> Block:
    """Return the block of the run: changes where its first job is to back up such."""
    block = make_block().model_copy(update={"run": argument("--run")})
    if part == "begin anew":
        return block.model_copy(update={"gap": "the slot is gone"})
    if part not in ("changes", "refuse after changes") or starts() > 1:
        return block
    stream = Stream(slot="s", position="0/50", publication="s", publication_oid=1)
    stream = stream.model_copy(update={"not_followed": {"public.late": "its key was changed"}})
    covers = block.covers.model_copy(update={"from_position": archive.state.streams.get("shop_db")})
    return block.model_copy(update={"kind": "changes", "stream": stream, "covers": covers})


def begun() -> dict[str, object]:
    """Return what a job of changes tells of tables to begin with, and later ones that these were begun with."""
    if starts() == 1:
        return {"to_begin": ["public.late", "public.new"]}
    first = next(iter(Archive.open(open_store(argument("--archive"))).state.blocks.values()))
    return {"commit": first.commit, "block": first.block.id, "begun": ["public.late"]}


def play(part: str, log: RunLog) -> int:
    """Do what was asked for and return the exit code."""
    store = open_store(argument("--archive"))
    sys.stderr.write(f"the job says: the password is {os.environ.get('PGPASSWORD')}\n")
    if part == "no java":
        sys.stderr.write("JAVA_HOME is not set\n")
        return 1
    try:
        with log:
            if part in ("refuse", "bad usage"):
                raise {"refuse": RefusedError, "bad usage": UsageError}[part](f"asked to {part}: do something else")
            log.progress("reading tables", rows=5)
            if part == "tell":
                log.result = json.loads(os.environ["FAKE_RESULT"])
                return 0
            if part == "hang":
                time.sleep(600)
            if part in ("die", "orphan") or (part == "die once" and starts() == 1):
                os.kill(os.getpid(), 9)
            archive = Archive.open(store)
            block = the_block(part, archive)
            change = Change(kind="backup", add=(block,), expected_ends={"shop_db": archive.state.ends.get("shop_db")})
            commit = archive.add(lambda state: change, check=lambda: None, fence=None)
            if part == "refuse after changes":
                raise RefusedError(f"asked to {part}: do something else")
            if part == "die after the commit":
                os.kill(os.getpid(), 9)
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
                **(begun() if part == "changes" else {}),
            }
    except (RefusedError, UsageError) as error:
        return error.exit_code
    return 1 if part == "fail after the commit" else 0


if __name__ == "__main__":
    sys.exit(main())
