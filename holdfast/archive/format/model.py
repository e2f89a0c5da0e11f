"""Models of an archive's identity and commits (formats 1 and 2).

Every commit states its format and the least reader and writer versions that may use the archive from then on, so that
an old release refuses what it cannot understand.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from holdfast.archive.format.block import Block  # noqa: TC001 - pydantic reads it at run time
from holdfast.archive.format.document import ChecksummedDocument, Count, Document, Moment, Position, SourceName


class Identity(ChecksummedDocument):
    """Identity of an archive, stored as `archive.json`, once, when the archive is created.

    :param format: of the first commits; later ones may have lifted it.
    """

    id: str
    name: str
    created: Moment
    min_reader: int = 1
    writer: str


class Hold(Document):
    """A restore point that must stay restorable until it is released.

    :param position: of the source; `at`: the moment it stands for.
    :param owner: who answers for it; `reason`: why it has to stay, in words.
    :param created: by the store's clock.
    """

    id: str
    source: SourceName
    position: Position
    at: Moment
    owner: str
    reason: str
    created: Moment


class LogPlace(Document):
    """Position of a replica in the update log that all replicas share.

    :param store: id of the coordination store that the log is in.
    :param replica: the name of this replica there.
    :param index: of the last entry whose change is here; 0: none was appended yet.
    :param entry: id of that entry; "" where the replica joined the others at this index. While it is being recovered:
        that of the last entry before, or, by an earlier release, the id of that recovery.
    :param base: number of the commit by which the archive became the first replica: what entry 1 adds has the next one,
        on every replica, whatever commits each of them makes beside. 0: not known.
    :param recovering: it is being recovered, and must not be read until that is done. Until then the index and the
        entry are those that it had before.
    :param recovery: id of that recovery, also in the commit that ends it; "" where an earlier release began it: then
        index and entry say nothing.
    :param passed: the entry had failed, and nothing of it is here.
    :param reached, reached_entry: the last entry that it had executed before it was recovered from a replica that was
        further back; 0: it has come to that again.
    :param before: ids of the stores that the log was in before, each with the index at which it went on in another one.
    :param members: URLs of the archive's replicas by name, as the last entry says that has added or removed one; empty:
        none has.
    :param acknowledged: index of the last entry that says of a backup that its quorum has succeeded; 0: none.
    :param set_aside: a rebuilding of the log has decided that what it has more than the others does not count.
    """

    store: str
    replica: str
    index: int = Field(ge=0)
    base: int = 0
    entry: str = ""
    recovering: bool = False
    recovery: str = ""
    passed: bool = False
    reached: int = 0
    reached_entry: str = ""
    before: dict[str, int] = Field(default_factory=dict)
    members: dict[str, str] = Field(default_factory=dict)
    acknowledged: int = 0
    set_aside: bool = False


class Adopted(Document):
    """State that a replica took over from another one, without its blocks and holds.

    :param ends: the position each source's backups have reached, by source name; `streams`: each one's changes.
    :param numbers: of all blocks that the other one has, by id: one commit brings them, in no order.
    """

    ends: dict[str, Position]
    streams: dict[str, str]
    numbers: dict[str, int] = Field(default_factory=dict)


class ArchiveCommit(ChecksummedDocument):
    """One atomic change to an archive: the only truth.

    :param archive: id of the archive that it is a commit of; "" where an earlier release made it.
    :param parent_checksum: of the commit before; "" where an earlier release made it.
    :param own_checksum: known once it is stored; it is no part of what is stored but as its checksum.
    :param fence: transaction id of the write lock it was made under.
    :param committed_at: by the store's clock, read just before the commit was created.
    :param remove: ids of blocks that are no longer part of the archive; their files stay until they are vacuumed.
    :param abandoned: ids of blocks that were begun and are never to be added: their files may go at any time.
    :param vacuumed: ids of removed or abandoned blocks whose files are gone.
    :param holds: new ones; `released`: ids of those that hold no more.
    :param reason: why, in words, where a person has to say so.
    :param vouches: checksums of all commits before, from the first on: who signs this one answers for them. From it on
        commits are signed. None: it says nothing of that.
    :param documents: SHA-256 of other objects from before it, by key: who signs this one answers for them, too. From it
        on every object is signed. None: it says nothing of that.
    :param supersedes: newest commits of states that this archive takes the place of, by archive id: who has seen one of
        them, or an older one, need not take this for an older copy.
    :param log: of a replica, where it stands in the update log from then on. A commit that executes no entry repeats
        the last index.
    :param void: the numbers from this one up to the one before the commit never count, whatever they hold: a write that
        the store refused had left something there. Then `parent` is the commit before them. None: all before it count.
    :param adopted: the replica was made equal to another one: what it has is in `add` or was here, and all else goes.
    :param aside: ids of blocks that the other one does not have: no part of the archive, and their files stay.
    """

    sequence: int = Field(ge=1)
    id: str
    archive: str = ""
    parent: str | None
    parent_checksum: str = ""
    own_checksum: str = Field(default="", exclude=True)
    kind: str
    min_reader: int
    min_writer: int
    fence: str | None
    committed_at: Moment
    writer: str
    add: tuple[Block, ...] = ()
    remove: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    vacuumed: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    released: tuple[str, ...] = ()
    reason: str = ""
    log: LogPlace | None = None
    adopted: Adopted | None = None
    aside: tuple[str, ...] = ()
    vouches: tuple[str, ...] | None = None
    documents: dict[str, str] | None = None
    supersedes: dict[str, Count] = Field(default_factory=dict)
    void: Annotated[int, Field(ge=1)] | None = None

    @property
    def parent_sequence(self) -> int:
        """Return the number of the commit before; 0 for the first."""
        return (self.void or self.sequence) - 1

    @property
    def voided(self) -> range:
        return range(self.parent_sequence + 1, self.sequence)

    def follows(self, tip: str | None, checksum: str = "") -> bool:
        """Return whether it was made after the commit `tip` with this checksum, "" where that is not known."""
        known = bool(self.parent_checksum and checksum)
        return self.parent == tip and (not known or self.parent_checksum == checksum)
