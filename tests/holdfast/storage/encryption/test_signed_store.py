"""A store that signs: what it writes is believed under its name in its archive, and nothing else is."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.signing import Signing
from holdfast.storage import ObjectStore, SealedStore, open_store, open_url
from holdfast.storage.encryption.key_source import new_key
from holdfast.storage.encryption.signed_store import NotSignedError
from holdfast.storage.encryption.signing_key import find_signing_key
from tests.support.signers import signing

KEY = "runs/r/000000.json"
BODY = b'{\n "rows": 1\n}'


@pytest.fixture
def us(tmp_path: Path) -> Signing:
    return signing(tmp_path / "ours")


@pytest.fixture(params=["clear", "encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path, us: Signing) -> SealedStore:
    """The store of an archive that was just created."""
    address = None
    if request.param == "encrypted":
        (tmp_path / "key").write_text(new_key())
        (tmp_path / "key").chmod(0o600)
        address = f"file:{tmp_path / 'key'}"
    made = open_store(str(tmp_path / "archive"), address, us)
    Archive.create(made, name="shop")
    return made


def readers(us: Signing) -> Signing:
    return Signing(signers=(str(find_signing_key(str(us.key)).public),))


def another(store: SealedStore, who: Signing) -> SealedStore:
    return open_store(store.url, store.key, who)


@pytest.mark.parametrize("body", [BODY, b"PAR1"])
def test_what_is_written_comes_back_and_others_check_it(store: SealedStore, us: Signing, body: bytes) -> None:
    store.create(KEY, body)
    for who in (us, readers(us), Signing()):
        assert another(store, who).get(KEY) == body
    assert store.read(KEY).signed != body


@pytest.mark.parametrize(
    "key", ["archive.json", "commits/1", "checkpoints/1", "marks/s/1", "runs/r/1", "anything/else"]
)
def test_what_nobody_has_signed_is_refused_wherever_it_is(store: SealedStore, us: Signing, key: str) -> None:
    forger = another(store, Signing())
    forger.delete(key)
    forger.create(key, BODY)
    with pytest.raises(NotSignedError, match=f"^{key} is not signed, and nothing signed vouches for it"):
        another(store, readers(us)).get(key)
    assert not store.read(key).is_believed
    assert store.read(key).body == BODY


@pytest.mark.parametrize("key", ["data/x", "locks/x", "probes/x"])
def test_data_locks_and_probes_have_no_signature(store: SealedStore, key: str) -> None:
    store.create(key, BODY)
    assert store.read(key).signed == store.get(key) == BODY
    another(store, Signing()).put(key, b"other")
    assert store.get(key) == b"other"


def test_an_object_of_another_name_or_archive_is_refused(store: SealedStore, us: Signing, tmp_path: Path) -> None:
    other = open_store(str(tmp_path / "other"), None, us)
    Archive.create(other, name="shop")
    for place in (store, other):
        place.create(KEY, BODY)
    store.create_signed("runs/r/000001.json", store.read(KEY).signed)
    store.create_signed("runs/r/000002.json", other.read(KEY).signed)
    for key in ("runs/r/000001.json", "runs/r/000002.json"):
        with pytest.raises(NotSignedError, match=f"^{key} says to be signed by .* which is not so or not known here"):
            store.get(key)


def test_an_object_keeps_its_signature_where_it_is_copied_without_the_key(
    store: SealedStore, us: Signing, tmp_path: Path
) -> None:
    store.create(KEY, BODY)
    target = open_store(str(tmp_path / "copy"), None, readers(us))
    for key in ("archive.json", KEY):
        target.create_signed(key, another(store, readers(us)).read(key).signed)
    assert target.get(KEY) == BODY


def test_an_archive_that_takes_the_place_of_another_is_checked_by_its_own_id(us: Signing, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    store = open_store(str(place), None, us)
    Archive.create(store, name="first")
    store.create(KEY, BODY)
    store.get(KEY)
    place.rename(tmp_path / "first")
    later: ObjectStore = open_store(str(place), None, us)
    Archive.create(later, name="second")
    later.create(KEY, b"of the second")
    assert store.get(KEY) == b"of the second"
    open_url(str(place)).put(KEY, (tmp_path / "first" / KEY).read_bytes())
    with pytest.raises(NotSignedError):
        store.get(KEY)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"id": 7}', b"[" * 100_000])
def test_without_an_identity_nothing_is_believed(store: SealedStore, us: Signing, body: bytes) -> None:
    store.create(KEY, BODY)
    Path(store.url, "archive.json").write_bytes(body)
    with pytest.raises(NotSignedError):
        another(store, us).get(KEY)


def test_other_processes_check_signatures_and_make_none(store: SealedStore, us: Signing) -> None:
    both = another(store, replace(us, signers=readers(us).signers))
    worker = copy.copy(both)  # by what pickle reads and writes, too
    assert (worker.signing.key, worker.signing.signers) == (None, both.signing.signers)
    both.create(KEY, BODY)
    assert worker.get(KEY) == BODY
