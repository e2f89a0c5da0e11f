"""Somebody who may write to the store and knows the format: no backup of a signed archive comes from him."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

from holdfast.archive.format.commits import commit_key, parse_commit
from holdfast.archive.format.document import FileRecord
from holdfast.common.signing import KEY_VARIABLE, SIGNERS_VARIABLE
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from holdfast.storage import open_store
from tests.support.jobs.command_here import run_here
from tests.support.signers import new_signer

pytestmark = pytest.mark.service


def _forge(place: Path, number: int) -> None:
    """Put another content in the place of a backup's first data file, with all checksums right."""
    store = open_store(str(place))
    key = commit_key(number)
    commit = parse_commit(key, store.get(key))
    block = commit.add[0]
    table = block.tables[0]
    record = table.files[0]
    store_body = store.get(record.key)
    store.delete(record.key)
    store.create(record.key, store_body + b"evil")
    forged = _with_body(record, store_body + b"evil")
    tables = (table.model_copy(update={"files": (forged, *table.files[1:])}), *block.tables[1:])
    commit = commit.model_copy(update={"add": (block.model_copy(update={"tables": tables}),)})
    store.delete(key)
    store.create(key, commit.to_bytes())


def _with_body(record: FileRecord, body: bytes) -> FileRecord:
    return record.model_copy(update={"size": len(body), "sha256": hashlib.sha256(body).hexdigest()})


def test_a_forged_backup_is_restored_verified_and_drilled_by_nobody_who_asks_for_signatures(
    tmp_path: Path, new_database: Callable[..., Address]
) -> None:
    source, target = new_database(), new_database()
    with connect(source) as session:
        session.execute(b"create table public.t (id int primary key, words text)")
        session.execute(b"insert into public.t select each, repeat('x', 100) from generate_series(1, 1000) each")
    archive = str(tmp_path / "archive")
    address, public = new_signer(tmp_path / "sign.key")
    ours = MappingProxyType({KEY_VARIABLE: address})
    readers = MappingProxyType({SIGNERS_VARIABLE: public})
    assert run_here("init", archive, more=ours).code == 0
    assert run_here("backup", archive, "--source", source.url, "--kind", "full", address=source, more=ours).code == 0
    restore = ("restore", archive, "--to", target.url)
    assert run_here(*restore, "--dry-run", address=target, more=readers).code == 0
    assert run_here("verify", archive, "--deep", more=readers).code == 0
    _forge(tmp_path / "archive", 1)
    for words in (restore, ("verify", archive), ("drill", archive), ("query", archive, "select 1")):
        done = run_here(*words, address=target, more=readers)
        assert (done.code, "is not signed" in done.out + done.err) == (4, True), done.err
    with connect(target) as session:
        assert session.execute(b"select count(*) from pg_class where relname = 't'").fetchone() == (0,)
    done = run_here("backup", archive, "--source", source.url, address=source, more=ours)
    assert (done.code, "is not signed" in done.out + done.err) == (4, True), done.err
