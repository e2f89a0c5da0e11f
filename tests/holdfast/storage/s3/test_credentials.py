"""Credentials that end: one set for all stores of a process, renewed in time, and what is said where they are not."""

from __future__ import annotations

import os
import pickle
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.common.remote_environment import IDENTITY_VARIABLE, collected
from holdfast.storage import StoreDenied, open_store
from holdfast.storage.s3 import credentials
from tests.support.stores.renewed_credentials import Provider

PROGRAM = """
import json, pathlib, sys
asked = pathlib.Path(sys.argv[1])
number = len(asked.read_text()) if asked.exists() else 0
asked.write_text("x" * (number + 1))
print(json.dumps({"Version": 1, "AccessKeyId": f"key-{number}", "SecretAccessKey": "s", "SessionToken": f"t-{number}",
                  "Expiration": sys.argv[2]}))
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that counts how often a profile's process was asked for credentials."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "program.py").write_text(PROGRAM)
    ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    said = f"{sys.executable} {tmp_path}/program.py {tmp_path}/asked {ends}"
    (tmp_path / "config").write_text(f"[profile role]\ncredential_process = {said}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_PROFILE", "role")
    monkeypatch.setattr(credentials, "_shared", {})
    return tmp_path / "asked"


def test_all_stores_of_a_process_share_them_until_the_configuration_changes(asked: Path) -> None:
    stores = [open_store(f"s3://bucket/{name}") for name in ("one", "two")]
    with collected() as remote:
        pickle.dumps(stores)
    assert (remote.is_renewed, asked.read_text()) == (True, "x")
    assert (remote.variables["AWS_ACCESS_KEY_ID"], remote.variables["AWS_SESSION_TOKEN"]) == ("key-0", "t-0")

    os.utime(asked.with_name("config"), (1, 1))
    with collected() as remote:
        pickle.dumps(open_store("s3://bucket/one"))
    assert remote.variables["AWS_ACCESS_KEY_ID"] == "key-1"


def test_workers_with_an_identity_of_their_own_ask_for_their_own(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IDENTITY_VARIABLE, "own")
    with collected() as remote:
        pickle.dumps(open_store("s3://bucket/one"))
    assert not remote.is_renewed
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"} & remote.variables.keys()


def test_lasting_keys_are_not_renewed(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    with collected() as remote:
        pickle.dumps(open_store("s3://bucket/one"))
    assert (remote.is_renewed, remote.variables["AWS_ACCESS_KEY_ID"], asked.exists()) == (False, "AKIA", False)


def test_tasks_are_sent_with_those_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider()
    provider.give(monkeypatch)
    store = open_store("s3://bucket/one")
    found = []
    for _ in range(3):
        with collected() as remote:
            pickle.dumps(store)
        found.append(remote.variables["AWS_SESSION_TOKEN"])
        provider.pass_time()
    assert found == ["token-1", "token-2", "token-3"]


def test_what_cannot_be_renewed_is_said_with_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider()
    provider.give(monkeypatch)
    store = open_store("s3://bucket/one")
    provider.pass_time()
    provider.is_gone = True
    with pytest.raises(StoreDenied, match=r"S3 credentials cannot be renewed: .* the role, its token"), collected():
        pickle.dumps(store)
