"""Somebody who may write to the store and knows the format: nothing in a signed archive is believed that he wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.checkpoint import checkpoint_key
from holdfast.archive.format.checkpoint_file import to_bytes
from holdfast.archive.format.commits import commit_key, parse_commit
from holdfast.archive.format.document import FileRecord, iso
from holdfast.archive.format.runs import RunLog, RunRecord, read_last, record_key
from holdfast.archive.maintenance.scrub_schedule import ScrubProgress, read_progress, write_progress
from holdfast.common.errors import DamagedError, ReportedError
from holdfast.common.signing import KEY_VARIABLE, SIGNERS_VARIABLE, Signing
from holdfast.drill.history import drill_standing
from holdfast.operations.outcome import JobEnd, job_result
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from tests.support.jobs.command_here import run_here
from tests.support.signers import new_signer, signing

NOBODY = Signing()


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


@pytest.mark.service
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


@pytest.fixture
def us(tmp_path: Path) -> Signing:
    return signing(tmp_path / "ours")


@pytest.fixture
def store(tmp_path: Path, us: Signing) -> ObjectStore:
    """The store of a signed archive with one backup."""
    made = open_store(str(tmp_path / "archive"), None, us)
    archive = Archive.create(made, name="shop")
    block = make_block(position="0/100")
    archive.add(lambda _: Change(kind="backup", add=(block,)), check=lambda: None, fence="t")
    return made


def _put(store: ObjectStore, key: str, body: bytes) -> None:
    """Write an object as somebody who has no key that signs."""
    forger = open_store(store.url, None, NOBODY)
    forger.delete(key)
    forger.create(key, body)


def _record(run: str, number: int = 0, operation: str = "drill", **more: Any) -> tuple[str, bytes]:
    told = {"run": run, "number": number, "operation": operation, "state": "succeeded", "step": "done", **more}
    return record_key(run, number), RunRecord.model_validate(told).to_bytes()


RUN = "backup.20261128T070000Z.abcdef"


@pytest.mark.parametrize("code", [0, 1])
def test_a_forged_record_makes_no_backup_of_a_job(store: ObjectStore, code: int) -> None:
    result = {"commit": 7, "rows": 1_234_567, "bytes": 1, "block": "0" * 32, "kind": "full"}
    _put(store, *_record(RUN, 999_999, "backup", result=result))
    assert read_last(store, RUN) is None
    for trusting in (store, open_store(store.url, None, NOBODY)):  # nor where nobody asks for signatures
        with pytest.raises(ReportedError) as caught:
            job_result(trusting, "backup", RUN, read_last(trusting, RUN), JobEnd(code, "" if code == 0 else "no room"))
        assert caught.value.reported_code


def test_a_forged_record_hides_none_of_ours_and_takes_no_number(store: ObjectStore) -> None:
    with RunLog(store, RUN, "backup") as log:
        _put(store, *_record(RUN, 999_999, "backup", result={"commit": 7}))
        log.result = {"commit": 1}
    last = read_last(store, RUN)
    assert last is not None
    assert last.result == {"commit": 1}
    later = RunLog(store, RUN, "backup")
    later.progress("going on")
    assert (last := read_last(store, RUN)) is not None
    assert (last.number, last.step) == (1_000_000, "going on")


def test_forged_evidence_counts_for_nothing(store: ObjectStore) -> None:
    _put(store, *_record("drill-shop_db.20261128T070000Z.ab", result={"equal": True, "seconds": 1.0}))
    read = {"2026-11-28T07:00:00Z": list(Archive.open(store).state.blocks)}
    _put(store, *_record("verification", 7, "verification", result={"at": "2026-11-28T07:00:00Z", "read": read}))
    assert drill_standing(store, "shop_db") == (None, "")
    assert read_progress(store) == ScrubProgress()
    write_progress(store, ScrubProgress(chain=1))
    assert read_progress(store).chain == 1  # though the forged one has a number, too


def test_evidence_of_ours_that_is_put_back_is_no_newer_by_that(store: ObjectStore) -> None:
    run = "drill-shop_db.20260101T070000Z.ab"
    at = datetime(2026, 1, 1, 7, tzinfo=UTC)
    store.create(*_record(run, at=at, result={"equal": True}))
    path = Path(store.url, record_key(run, 0))
    path.write_bytes(path.read_bytes())
    good = drill_standing(store, "shop_db").good
    assert good is not None
    assert good["ended"] == iso(at)


def test_evidence_of_a_time_to_come_counts_for_nothing_signed_or_not(store: ObjectStore) -> None:
    for where in (store, open_store(store.url, None, NOBODY)):
        where.create(*_record(f"drill-x.20270101T070000Z.{len(where.signing.key or '')}", at="2027-01-01T07:00:00Z"))
        where.put(*_record("verification", 0, "verification", result={"at": "2027-01-01T07:00:00Z"}))
        assert drill_standing(where, "x") == (None, "")
        assert read_progress(where) == ScrubProgress()


def test_another_identity_is_noticed_with_and_without_signers(store: ObjectStore) -> None:
    identity = Archive.open(store).identity
    _put(store, IDENTITY_KEY, identity.model_copy(update={"name": "production"}).to_bytes())
    for reader in (store, open_store(store.url, None, NOBODY)):
        with pytest.raises(DamagedError, match=r"archive\.json is not the one that the archive's commits vouch for"):
            Archive.open(reader)


def test_a_forged_checkpoint_is_not_used(store: ObjectStore, caplog: pytest.LogCaptureFixture) -> None:
    archive = Archive.open(store)
    forged = replace(archive.state, blocks={})
    _put(store, checkpoint_key(1), to_bytes(archive.identity.id, forged, str(forged.tip), datetime.now(UTC)))
    assert Archive.open(store).state.blocks.keys() == archive.state.blocks.keys()
    assert "is signed by nobody who is known here" in caplog.text
