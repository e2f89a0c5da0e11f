"""What a worker tells of itself: whatever is missing there is an answer."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest
from pyspark import cloudpickle

import holdfast
from sparkjobs.executors import worker_facts
from sparkjobs.executors.worker_facts import answers, asker, facts

_ASK_WITHOUT_PACKAGES = """
import pickle, sys
(told,) = pickle.loads(sys.stdin.buffer.read())([1])
assert "pyarrow" not in sys.modules and "holdfast" not in sys.modules
print(told["release"] or "none", told["pyarrow"] or "none", told.get("answers"))
"""


def double(items: Iterable[None]) -> list[int]:
    return [2 for _ in items]


def failing(items: Iterable[None]) -> list[int]:
    raise ValueError(f"no route\nto {len(list(items))} host")


def test_facts_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "own" / "blockmgr"
    own.mkdir(parents=True)
    own.parent.chmod(0o700)
    own.chmod(0o755)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{own},{tmp_path}/another")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = facts()
    assert (told["host"], told["folder"], told["prefix"]) == (os.uname().nodename, str(own), sys.prefix)
    assert (told["release"], told["closed"]) == (holdfast.__version__, str(own.parent))
    assert set(told["free"]) == {str(own), str(tmp_path)}
    assert all(free > 0 for free in told["free"].values())


def test_a_folder_that_is_gone_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere/at/all")
    told = facts()
    assert (told["free"]["/nowhere/at/all"], told["closed"]) == (0, "")


def test_where_no_folder_takes_a_file_the_one_that_would_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    assert facts()["free"]["/nowhere"] == 0


def test_a_question_is_answered_by_the_driver_s_release_alone() -> None:
    (same,) = asker(holdfast.__version__, pickle.dumps(double))([1])
    (other,) = asker("0.0.9", pickle.dumps(double))([1])
    (nothing,) = asker(holdfast.__version__, None)([1])
    assert (same["answers"], "answers" in other, "answers" in nothing) == ([2], False, False)


@pytest.mark.parametrize(
    ("question", "error"),
    [(pickle.dumps(failing), "ValueError: no route to 1 host"), (b"none", "UnpicklingError: ")],
    ids=["it fails", "it cannot be read"],
)
def test_what_keeps_a_worker_from_an_answer_is_told_in_one_line(question: bytes, error: str) -> None:
    told = answers(question)
    assert told["error"].startswith(error)
    assert "\n" not in told["error"]


def test_a_python_without_packages_answers() -> None:
    cloudpickle.register_pickle_by_value(worker_facts)  # type: ignore[no-untyped-call]
    ask = cloudpickle.dumps(asker(holdfast.__version__, b"never read"))  # type: ignore[no-untyped-call]
    brought_by_spark = (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", _ASK_WITHOUT_PACKAGES],
        input=ask,
        env={"PYTHONPATH": os.pathsep.join(map(str, brought_by_spark))},
        capture_output=True,
        check=False,
    )
    assert (done.stdout.decode().strip(), done.returncode) == ("none none None", 0), done.stderr.decode()
