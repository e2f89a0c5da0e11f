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
    """A restore point that must stay restorable until it is released."""

    id: str
    source: SourceName
    position: Position  # of the source; `at`: the moment it stands for
    at: Moment
    owner: str  # who answers for it; `reason`: why it has to stay, in words
    reason: str
    created: Moment  # by the store's clock


class LogPlace(Document):
    """Position of a replica in the update log that all replicas share."""

    store: str  # id of the coordination store that the log is in
    replica: str  # the name of this replica there
    index: int = Field(ge=0)  # of the last entry whose change is here; 0: none was appended yet
    # number of the commit by which the archive became the first replica: what entry 1 adds has the next one, on every
    # replica, whatever commits each of them makes beside. 0: not known.
    base: int = 0
    # Id of that entry; "" where the replica joined the others at this index. While it is being recovered: that of the
    # last entry before, or, by an earlier release, the id of that recovery.
    entry: str = ""
    # It is being recovered, and must not be read until that is done. Until then the index and the entry are those that
    # it had before.
    recovering: bool = False
    # Id of that recovery, also in the commit that ends it; "" where an earlier release began it: then index and entry
    # say nothing
    recovery: str = ""
    passed: bool = False  # the entry had failed, and nothing of it is here
    # reached, reached_entry: the last entry that it had executed before it was recovered from a replica that was
    # further back; 0: it has come to that again
    reached: int = 0
    reached_entry: str = ""
    before: dict[str, int] = Field(default_factory=dict)
    """Ids of the stores that the log was in before, each with the index at which it went on in another one."""
    members: dict[str, str] = Field(default_factory=dict)
    """URLs of the archive's replicas by name, as the last entry says that has added or removed one; empty: none has."""
    acknowledged: int = 0  # index of the last entry that says of a backup that its quorum has succeeded; 0: none
    set_aside: bool = False  # a rebuilding of the log has decided that what it has more than the others does not count


class Adopted(Document):
    """State that a replica took over from another one, without its blocks and holds."""

    ends: dict[str, Position]
    """The position each source's backups have reached, by source name; `streams`: each one's changes."""
    streams: dict[str, str]
    numbers: dict[str, int] = Field(default_factory=dict)
    """Of all blocks that the other one has, by id: one commit brings them, in no order."""


class ArchiveCommit(ChecksummedDocument):
    """One atomic change to an archive: the only truth."""

    sequence: int = Field(ge=1)
    id: str
    archive: str = ""  # id of the archive that it is a commit of; "" where an earlier release made it
    parent: str | None
    parent_checksum: str = ""  # of the commit before; "" where an earlier release made it
    own_checksum: str = Field(default="", exclude=True)
    """Known once it is stored; it is no part of what is stored but as its checksum."""
    kind: str
    min_reader: int
    min_writer: int
    fence: str | None  # transaction id of the write lock it was made under
    committed_at: Moment  # by the store's clock, read just before the commit was created
    writer: str
    add: tuple[Block, ...] = ()
    remove: tuple[str, ...] = ()
    """Ids of blocks that are no longer part of the archive; their files stay until they are vacuumed."""
    abandoned: tuple[str, ...] = ()
    """Ids of blocks that were begun and are never to be added: their files may go at any time."""
    vacuumed: tuple[str, ...] = ()  # ids of removed or abandoned blocks whose files are gone
    holds: tuple[Hold, ...] = ()  # new ones; `released`: ids of those that hold no more
    released: tuple[str, ...] = ()
    reason: str = ""  # why, in words, where a person has to say so
    # Of a replica, where it stands in the update log from then on. A commit that executes no entry repeats the last
    # index.
    log: LogPlace | None = None
    adopted: Adopted | None = None
    """The replica was made equal to another one: what it has is in `add` or was here, and all else goes."""
    aside: tuple[str, ...] = ()
    """Ids of blocks that the other one does not have: no part of the archive, and their files stay."""
    # checksums of all commits before, from the first on: who signs this one answers for them. From it on commits are
    # signed. None: it says nothing of that.
    vouches: tuple[str, ...] | None = None
    # SHA-256 of other objects from before it, by key: who signs this one answers for them, too. From it on every object
    # is signed. None: it says nothing of that.
    documents: dict[str, str] | None = None
    # newest commits of states that this archive takes the place of, by archive id: who has seen one of them, or an
    # older one, need not take this for an older copy
    supersedes: dict[str, Count] = Field(default_factory=dict)
    # the numbers from this one up to the one before the commit never count, whatever they hold: a write that the store
    # refused had left something there. Then `parent` is the commit before them. None: all before it count.
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
