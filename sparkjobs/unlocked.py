"""Reading of an archive without locks.

A reader that may not write relies on the grace of a vacuum, and reports when it is over.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.archive import Archive
from holdfast.archive.format.resume import missing
from holdfast.common.errors import DamagedError, exit_code_of, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.archive.history.timeline import Moment
    from sparkjobs.driver.application import Job


@contextmanager
def still_there(job: Job, moment: Moment) -> Iterator[None]:
    """Check at the block's end that all files of a recovery target are still there.

    :raises DamagedError: some are not; says so where the moment was removed from the archive meanwhile.
    """
    try:
        yield
        job.log.progress("looking whether all files are still there")
        files = {file.path: file for placed in moment.blocks() for file in placed.block.files()}
        gone = sorted(missing(job.store, files.values()))
        if gone:
            raise DamagedError(
                f"{gone[0]} is missing from {job.store.url}" + (f", and {len(gone) - 1} more" * (len(gone) > 1))
            )
    except Exception as error:
        if exit_code_of(error) == DamagedError.exit_code and _is_removed(Archive.open(job.store), moment):
            raise DamagedError(
                f"{sentence(error)}. What was to be restored was removed from the archive meanwhile, and the grace of "
                "a vacuum has passed: restore a moment that is still there"
            ) from error
        raise


def _is_removed(archive: Archive, moment: Moment) -> bool:
    return any((placed.home or placed.id) not in archive.state.blocks for placed in moment.blocks())
