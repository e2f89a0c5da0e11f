"""Reading of an archive without locks, which relies on the grace of a vacuum."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.archive import Archive
from holdfast.archive.format.resume import missing
from holdfast.common.errors import DamagedError, exit_code_of, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.history.recovery_target import RecoveryTarget
    from holdfast.storage import ObjectStore


@contextmanager
def read_unlocked(
    store: ObjectStore, target: RecoveryTarget, progress: Callable[[str], object] = lambda step: None
) -> Iterator[None]:
    """Check at the block's end that all files of a recovery target are still there.

    :param progress: is called with each step.
    :raises DamagedError: some are not; says so where the target was removed from the archive meanwhile.
    """
    try:
        yield
        progress("looking whether all files are still there")
        files = {file.path: file for placed in target.blocks() for file in placed.block.files()}
        gone = sorted(missing(store, files.values()))
        if gone:
            raise DamagedError(
                f"{gone[0]} is missing from {store.url}" + (f", and {len(gone) - 1} more" * (len(gone) > 1))
            )
    except Exception as error:
        if exit_code_of(error) == DamagedError.exit_code and _is_removed(Archive.open(store), target):
            raise DamagedError(
                f"{sentence(error)}. What was to be read was removed from the archive meanwhile, and the grace of "
                "a vacuum has passed: choose a moment that is still there"
            ) from error
        raise


def _is_removed(archive: Archive, target: RecoveryTarget) -> bool:
    return any((placed.home or placed.id) not in archive.state.blocks for placed in target.blocks())
