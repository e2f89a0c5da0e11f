"""The store itself, or who has all rights in it: nobody who has seen the newest state is shown an older one as it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive.format.last_seen import VARIABLE
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key
from tests.support.jobs.command_here import run_here

pytestmark = pytest.mark.service


@pytest.mark.representatives("encrypted")
@pytest.mark.parametrize("encrypted", [False, True], ids=["in the clear", "encrypted"])
def test_an_older_state_and_an_exchanged_archive_are_refused_by_every_command(
    tmp_path: Path, new_database: Callable[..., Address], encrypted: bool
) -> None:
    source, target = new_database(), new_database()
    with connect(source) as session:
        session.execute(b"create table public.t (id int primary key)")
    (tmp_path / "key").write_text(new_key())
    (tmp_path / "key").chmod(0o600)
    more = {VARIABLE: str(tmp_path / "state")} | ({ENVIRONMENT: f"file:{tmp_path / 'key'}"} if encrypted else {})
    place, other = tmp_path / "archive", tmp_path / "other"
    backup = ("--source", source.url, "--kind", "full")
    for archive in (place, other):
        assert run_here("init", str(archive), more=more).code == 0
        assert run_here("backup", str(archive), *backup, address=source, more=more).code == 0
    shutil.copytree(place, tmp_path / "older")
    assert run_here("backup", str(place), *backup, address=source, more=more).code == 0
    for shown in (tmp_path / "older", other):
        shutil.rmtree(place)
        shutil.copytree(shown, place)
        for words, address in (
            (("restore", str(place), "--to", target.url), target),
            (("drill", str(place)), target),
            (("verify", str(place)), None),
            (("query", str(place), "select 1"), None),
            (("backup", str(place), *backup), source),
            (("truncate", str(place), "--keep", "last=1"), None),
            (("status", str(place)), None),
        ):
            done = run_here(*words, address=address, more=more)
            assert (done.code, "when this machine last saw it" in done.err) == (4, True), done
    with connect(target) as session:
        assert session.execute(b"select count(*) from pg_class where relname = 't'").fetchone() == (0,)
    assert run_here("accept", str(place), "--reason", "a test", "--yes", more=more).code == 0
    assert run_here("backup", str(place), *backup, address=source, more=more).code == 0
    assert run_here("restore", str(place), "--to", target.url, address=target, more=more).code == 0
