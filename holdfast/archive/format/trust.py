"""Commits that are believed, where signatures are asked for.

A commit is believed if a known key has signed it, or if a signed commit behind it vouches for it: that one holds the
checksums of all commits before it. So an archive may begin without signatures, and its signers may change.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.checksum import without_checksum
from holdfast.archive.format.commits import commit_key, parse_commit, read_stored
from holdfast.common.errors import DamagedError
from holdfast.storage.encryption.signed_store import not_signed
from holdfast.storage.encryption.signing_key import believed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore
    from holdfast.storage.contract.object_store import StoredDocument
    from holdfast.storage.encryption.signing_key import PublicKey


class CommitReader:
    """Reader of single commits; the newest that vouches for all before it is `vouched_by`, 0 for none."""

    def __init__(self, store: ObjectStore, vouched_by: int) -> None:
        self._store = store
        self._vouched_by = vouched_by
        self._vouched: tuple[str, ...] | None = None

    def read(self, sequence: int) -> ArchiveCommit:
        """Read one commit; DamagedError: it is not there, not what was written, or not to be believed."""
        key, stored = commit_key(sequence), read_stored(self._store, sequence)
        commit = parse_commit(key, stored.body)
        if _is_signed(self._store, key, stored) or self._is_vouched_for(commit):
            return commit
        raise _not_believed(self._store, key, stored)

    def _is_vouched_for(self, commit: ArchiveCommit) -> bool:
        if commit.sequence >= self._vouched_by:
            return False
        if self._vouched is None:
            self._vouched = self.read(self._vouched_by).vouches or ()
        return _are_vouched_for([commit], self._vouched)


def in_belief(
    store: ObjectStore, documents: Iterable[tuple[str, StoredDocument]], *, before_signing: bool = False
) -> Iterator[ArchiveCommit]:
    """Yield commits in their order, each once it is believed.

    :param documents: key and content of each, the first one being the archive's first, or after one that is believed.
    :param before_signing: believe all.
    :raises DamagedError: one is not what was written, or not to be believed; those before it were yielded.
    """
    waiting: list[ArchiveCommit] = []
    first: tuple[str, StoredDocument] | None = None
    for key, stored in documents:
        commit = parse_commit(key, stored.body)
        is_signed = before_signing or _is_signed(store, key, stored)
        if not is_signed or (waiting and commit.vouches is None):
            first = first if waiting else (key, stored)
            waiting.append(commit)
            continue
        if waiting and not _are_vouched_for(waiting, commit.vouches or ()):
            break
        yield from waiting
        waiting = []
        yield commit
    if waiting and first is not None:
        raise _not_believed(store, *first)


def _are_vouched_for(commits: Sequence[ArchiveCommit], checksums: Sequence[str]) -> bool:
    return all(
        each.sequence <= len(checksums) and checksums[each.sequence - 1] == each.own_checksum for each in commits
    )


def check_vouched(state: State, documents: Mapping[str, str]) -> None:
    """Refuse documents, given by SHA-256 and key, other than those the commits vouch for."""
    for key, digest in documents.items():
        if (state.documents or {}).get(key, digest) != digest:
            raise DamagedError(
                f"{key} is not the one that the archive's commits vouch for: it was exchanged. Restore this "
                "object from a copy of the archive."
            )


def _is_signed(store: ObjectStore, key: str, stored: StoredDocument) -> bool:
    """Return whether a known key has signed a commit, as a whole or in the way of before."""
    if stored.is_believed:
        return True
    known = believed(store.signing)
    return known is None or was_signed_by(stored.body, key, known) is not None


def _not_believed(store: ObjectStore, key: str, stored: StoredDocument) -> DamagedError:
    return not_signed(key, stored.signer or signer_of(stored.body), store.signing)


_SIGNATURE: Final = re.compile(rb',\n "signature": "([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"\n}')
_LENGTH: Final = len(b',\n "signature": ":"\n}') + 16 + 88


def was_signed_by(body: bytes, name: str, known: Mapping[str, PublicKey]) -> PublicKey | None:
    """Return the key among those known, by fingerprint, that has signed a document; None: none has."""
    content = without_checksum(body)
    found = _SIGNATURE.fullmatch(content[-_LENGTH:])
    key = known.get(found[1].decode()) if found else None
    if found is None or key is None:
        return None
    signature = base64.b64decode(found[2])
    return key if key.has_signed(_message(name, content[:-_LENGTH]), signature) else None


def signer_of(body: bytes) -> str:
    """Return the fingerprint that a document says it is signed by, which proves nothing; "" if none."""
    found = _SIGNATURE.fullmatch(without_checksum(body)[-_LENGTH:])
    return found[1].decode() if found else ""


def _message(name: str, content: bytes) -> bytes:
    return b"holdfast signed object 1\n%s\n%s\n" % (name.encode(), hashlib.sha256(content).hexdigest().encode())
