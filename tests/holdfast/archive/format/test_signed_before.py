"""An archive of which only the commits are signed, as before: it stays readable, and is lifted by a commit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.checkpoint import CHECKPOINTS
from holdfast.archive.format.commits import commit_key
from holdfast.archive.maintenance.scrub_schedule import read_progress
from holdfast.archive.maintenance.verify import verify
from holdfast.archive.maintenance.vouching import vouch
from holdfast.common.errors import DamagedError
from holdfast.common.signing import Signing
from holdfast.drill.history import drills_of
from holdfast.storage import ObjectStore, open_store

FIXTURE = Path(__file__).parents[4] / "tests" / "fixtures" / "signed"
SOURCE = "postgres"


@pytest.fixture
def us() -> Signing:
    return Signing(f"file:{FIXTURE / 'key'}")


@pytest.fixture
def store(tmp_path: Path, us: Signing) -> ObjectStore:
    (FIXTURE / "key").chmod(0o600)
    return open_store(str(shutil.copytree(FIXTURE / "archive", tmp_path / "archive")), None, us)


def lift(store: ObjectStore) -> None:
    """Add a commit, as any job of this release does."""
    Archive.open(store).add(lambda _: Change(kind="backup"), check=lambda: None, fence="t")


def test_it_is_read_and_every_byte_is_as_it_was_written(store: ObjectStore, caplog: pytest.LogCaptureFixture) -> None:
    archive = Archive.open(store)
    assert (archive.state.sequence, archive.state.min_writer, archive.state.documents) == (3, 5, None)
    assert verify(archive, deep=True).damage == ()
    assert "checkpoints/" not in caplog.text  # the checkpoint that it signed is used


def test_what_it_did_not_sign_is_no_evidence(store: ObjectStore, caplog: pytest.LogCaptureFixture) -> None:
    assert len(drills_of(open_store(store.url), SOURCE)) == 1
    assert read_progress(open_store(store.url)).chain == 3
    assert drills_of(store, SOURCE) == []
    assert read_progress(store).chain == 0
    assert "is not signed, and nothing signed vouches for it" in caplog.text


def test_the_next_commit_lifts_it_and_answers_for_the_identity(store: ObjectStore) -> None:
    lift(store)
    state = Archive.open(store).state
    assert (state.sequence, state.min_writer, state.min_reader) == (4, 6, 6)
    assert list(state.documents or ()) == ["archive.json"]
    lift(store)
    assert Archive.open(store).state.documents == state.documents
    assert Archive.open(store).commit(5).documents is None  # it says so once


def test_another_identity_is_refused_after_that(store: ObjectStore) -> None:
    lift(store)
    path = Path(store.url, "archive.json")
    path.write_bytes(path.read_bytes().replace(b'"fixture"', b'"product"'))
    for trusting in (store, open_store(store.url)):
        with pytest.raises(DamagedError, match=r"archive\.json is damaged|archive\.json of .* it was exchanged"):
            Archive.open(trusting)


def test_a_commit_that_it_did_not_sign_is_refused_before_and_after(store: ObjectStore) -> None:
    path = Path(store.url, commit_key(2))
    body = path.read_bytes()
    for folder in Path(store.url, CHECKPOINTS).iterdir():
        folder.unlink()
    for _ in range(2):
        path.write_bytes(body.replace(b'"signature": "', b'"signature": "0'))
        with pytest.raises(DamagedError, match=commit_key(2)):
            Archive.open(store)
        path.write_bytes(body)
        lift(store)


def test_who_starts_signing_anew_answers_for_the_marks_that_wait(store: ObjectStore, us: Signing) -> None:
    vouch(store, check=lambda: None, fence="t")
    (mark,) = (info.key for info in store.list("marks/").objects)
    assert set(Archive.open(store).state.documents or ()) == {"archive.json", mark}
