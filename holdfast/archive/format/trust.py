"""Commits that are believed, where signatures are asked for.

A commit is believed if a known key has signed it, or if a signed commit behind it vouches for it: that one holds the
checksums of all commits before it. So an archive may begin without signatures, and its signers may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.format.commits import commit_key, parse_commit, read_body
from holdfast.archive.format.signature import signed_by, signer_of
from holdfast.common.errors import DamagedError
from holdfast.storage.encryption.signing_key import believed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import ObjectStore
    from holdfast.storage.encryption.signing_key import PublicKey


class CommitReader:
    """Reader of single commits of an archive.

    :param vouched_by: number of the newest commit that vouches for all before it, 0 where there is none.
    """

    def __init__(self, store: ObjectStore, vouched_by: int) -> None:
        self._store = store
        self._vouched_by = vouched_by
        self._vouched: tuple[str, ...] | None = None

    def read(self, sequence: int) -> ArchiveCommit:
        """Read one commit.

        :raises DamagedError: it is not there, not what was written, or not to be believed.
        """
        key, body = commit_key(sequence), read_body(self._store, sequence)
        commit, known = parse_commit(key, body), believed(self._store.signing)
        if known is None or signed_by(body, key, known) or self._is_vouched_for(commit):
            return commit
        raise not_believed(key, body, known)

    def _is_vouched_for(self, commit: ArchiveCommit) -> bool:
        if commit.sequence >= self._vouched_by:
            return False
        if self._vouched is None:
            self._vouched = self.read(self._vouched_by).vouches or ()
        return _are_vouched_for([commit], self._vouched)


def in_belief(
    store: ObjectStore, bodies: Iterable[tuple[str, bytes]], *, before_signing: bool = False
) -> Iterator[ArchiveCommit]:
    """Yield commits in their order, each once it is believed.

    :param bodies: key and content of each, the first one being the archive's first, or after one that is believed.
    :param before_signing: believe all.
    :raises DamagedError: one is not what was written, or not to be believed; those before it were yielded.
    """
    known = None if before_signing else believed(store.signing)
    waiting: list[ArchiveCommit] = []
    first: tuple[str, bytes] | None = None
    for key, body in bodies:
        commit = parse_commit(key, body)
        is_signed = known is None or signed_by(body, key, known) is not None
        if not is_signed or (waiting and commit.vouches is None):
            first = first if waiting else (key, body)
            waiting.append(commit)
            continue
        if waiting and not _are_vouched_for(waiting, commit.vouches or ()):
            break
        yield from waiting
        waiting = []
        yield commit
    if waiting and first is not None and known is not None:
        raise not_believed(*first, known)


def _are_vouched_for(commits: Sequence[ArchiveCommit], checksums: Sequence[str]) -> bool:
    return all(
        each.sequence <= len(checksums) and checksums[each.sequence - 1] == each.own_checksum for each in commits
    )


def not_believed(key: str, body: bytes, known: Mapping[str, PublicKey]) -> DamagedError:
    """Return the error for a document that no known key has signed."""
    signer = signer_of(body)
    how = f"says to be signed by {signer}, which is not so or not known here" if signer else "is not signed"
    return DamagedError(
        f"{key} {how}, and nothing signed vouches for it (known: {', '.join(sorted(known))}): it may be forged. "
        "Compare with a copy of the archive; where it is all right, 'holdfast signing start' vouches for what is there"
    )
