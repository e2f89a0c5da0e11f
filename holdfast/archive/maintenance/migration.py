"""Migration of an archive to a newer format: one step for each, ending in one commit.

Nothing that was written is written again. What a step needs beforehand it writes beside, where older releases do not
look; from the commit that states the new format on they refuse the archive. A step that was ended before its commit is
done again, and finds what it had written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.format.state import Change
from holdfast.archive.format.versions import FORMAT
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError, RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.state import State

_NAMED: Final = 3


def _to_2(archive: Archive) -> None:
    """Write the checkpoint by which an archive of format 2 is opened from its first commit on."""
    write_checkpoint(archive.store, archive.identity.id, archive.state)


STEPS: Final[Mapping[int, Callable[[Archive], None]]] = {2: _to_2}
"""What is done before the commit that states each format."""


def migrate(archive: Archive, to: int = FORMAT, *, check: Callable[[], None], fence: str | None) -> dict[str, Any]:
    """Migrate an archive step by step; readers see one format or the other, and the same restore points.

    :param check: raises if the lock of the migration is no longer held.
    :raises UsageError: this release does not know that format.
    :raises RefusedError: the archive has a newer one.
    :raises DamagedError: the archive is damaged: lifting it would hide since when.
    """
    if not 1 <= to <= FORMAT:
        raise UsageError(f"there is no format {to}: this release knows formats 1 to {FORMAT}")
    archive.refresh()
    before = archive.state.format
    if to < before:
        raise RefusedError(f"the archive has format {before}: what it holds could not be told in format {to}")
    if to > before:
        _check_undamaged(archive)
    for number in range(before + 1, to + 1):
        STEPS[number](archive)
        lift = Change("migration", format=number)
        archive.add(partial(_always, lift), check=check, fence=fence)
    return {
        "archive": archive.identity.id,
        "from": before,
        "format": archive.state.format,
        "commits": archive.state.sequence,
    }


def _always(change: Change, state: State) -> Change:
    del state
    return change


def _check_undamaged(archive: Archive) -> None:
    damage = verify(archive).damage
    if damage:
        named = "; ".join(str(each) for each in damage[:_NAMED])
        more = f"; and {len(damage) - _NAMED} more" if len(damage) > _NAMED else ""
        raise DamagedError(
            f"the archive is damaged, and was not migrated: {named}{more}. Put these back from a copy first; "
            "'holdfast verify' names them all"
        )
