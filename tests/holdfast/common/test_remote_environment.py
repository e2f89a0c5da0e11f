"""What tasks need on another machine: collected where it is pickled, in force where it is unpickled."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.common.remote_environment import (
    IDENTITY_VARIABLE,
    RemoteEnvironment,
    collected,
    is_driver_who_asks,
    needed,
)

THERE = """
import json, os, pickle, stat, sys
remote = pickle.load(sys.stdin.buffer)
remote.put_in_force()
remote.put_in_force()
path = os.environ.get("CERTIFICATE", "")
seen = {"variables": {name: os.environ.get(name) for name in ("ENDPOINT", "PROFILE", "KEPT")}}
if path:
    seen |= {"content": open(path).read(), "mode": oct(stat.S_IMODE(os.stat(path).st_mode)), "again": open(path).read()}
seen["files"] = sorted(os.listdir("."))
print(json.dumps(seen))
"""


def there(remote: RemoteEnvironment, folder: Path, **before: str) -> dict[str, Any]:
    """Put it in force in a process that knows nothing, and return what is seen there."""
    done = subprocess.run(
        [sys.executable, "-c", THERE],
        input=pickle.dumps(remote),
        env={"PATH": os.environ["PATH"], **before},
        cwd=folder,
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_variables_are_set_and_removed_and_others_stay(tmp_path: Path) -> None:
    remote = RemoteEnvironment({"ENDPOINT": "http://store", "PROFILE": None})
    seen = there(remote, tmp_path, ENDPOINT="http://other", PROFILE="theirs", KEPT="theirs")
    assert seen["variables"] == {"ENDPOINT": "http://store", "PROFILE": None, "KEPT": "theirs"}


def test_files_are_read_there_for_their_owner_alone_and_lie_in_no_folder(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN")
    folder = tmp_path / "worker"
    folder.mkdir()
    remote = RemoteEnvironment()
    remote.add_file("CERTIFICATE", tmp_path / "ca.pem")
    seen = there(remote, folder)
    assert (seen["content"], seen["again"], seen["mode"]) == ("-----BEGIN", "-----BEGIN", "0o600")
    assert seen["files"] == []


def test_a_file_that_is_not_there_is_said_where_the_job_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ca\.pem \(CERTIFICATE\) cannot be read, and Spark's workers need it"):
        RemoteEnvironment().add_file("CERTIFICATE", tmp_path / "ca.pem")


def test_two_values_of_one_variable_are_refused(tmp_path: Path) -> None:
    remote = RemoteEnvironment()
    remote.add({"ENDPOINT": "a"})
    remote.add({"ENDPOINT": "a"})
    with pytest.raises(UsageError, match="different values of ENDPOINT"):
        remote.add({"ENDPOINT": "b"})
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    remote.add_file("CERTIFICATE", tmp_path / "one")
    with pytest.raises(UsageError, match="different values of CERTIFICATE"):
        remote.add_file("CERTIFICATE", tmp_path / "two")


def test_it_shows_no_content() -> None:
    assert "secret" not in repr(RemoteEnvironment({"KEY": "secret"}, {"FILE": b"secret"}))


def test_needs_are_collected_only_meanwhile() -> None:
    assert needed() is None
    with collected() as remote:
        assert needed() is remote
        with collected() as inner:
            assert needed() is inner
        assert needed() is remote
    assert needed() is None


@pytest.mark.parametrize(("said", "asks"), [("", True), ("driver", True), ("own", False)])
def test_workers_ask_as_the_driver_unless_they_are_to_be_themselves(
    said: str, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDENTITY_VARIABLE, said)
    assert is_driver_who_asks() == asks


def test_an_identity_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IDENTITY_VARIABLE, "mine")
    with pytest.raises(UsageError, match="it may be one of: driver, own"):
        is_driver_who_asks()
