"""Windows of a stream: how much log each takes, and reading several at a time."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError, SparkEndedError, SparkNeededError, TooMuchError, sentence
from holdfast.common.lsn import between_records, show_position
from sparkjobs.tasks.changes import WindowTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkjobs.driver.application import Job
    from sparkjobs.tasks.changes import ChangeReader, FinishedWindow

WINDOW_BYTES = 256 << 20
"""Log that is one window: the server keeps what it decodes in a temporary file until it is all sent."""

WINDOWS_AT_ONCE = 2
"""Each has a session that decodes, and one that is sent what another decodes waits for it half of its time."""

_MOST_WINDOW_BYTES = 16 << 30
_LEAST_SHARE = 8
"""Less of a window's log than this part of it is not read by two sessions."""

MOST_CHANGES = 2_000_000


def next_room(room: int, last: FinishedWindow, beside: int | None) -> int:
    """Return the size limit of the next windows of log, from the result of the last one.

    :param beside: bytes of its log, where another was read at the same time; None: it was alone.
    """
    if last.bounded:
        # Or what is read beside the next one would be in vain, too.
        return min(room, WINDOW_BYTES) if beside is None else max(min(beside, WINDOW_BYTES) // 2, WINDOW_BYTES // 64)
    # Where little comes of much log, it is others' tables': no reason to take small steps.
    stored = sum(file.size for table in last.tables for file in table.files)
    if stored < WINDOW_BYTES // 16:
        return min(2 * room, _MOST_WINDOW_BYTES)
    return min(2 * room if 2 * last.messages < MOST_CHANGES else room, WINDOW_BYTES)


def cut_windows(at: int, end: int, room: int, block: str, at_once: int) -> list[WindowTask]:
    """Cut the next part of the log into windows that are read at a time: the first by the slot, others by copies.

    :param at: position where it begins.
    :param end: position where the segment ends, which a transaction may have overstepped.
    :param room: bytes of log of one window, at most.
    :param block: id of the first one's block.
    :param at_once: windows, at most.
    """
    left = max(end - at, 0)
    count = max(1, min(at_once, left * _LEAST_SHARE // WINDOW_BYTES))
    room = min(room, -(-left // count))
    *cuts, end = [min(at + number * room, at + left) for number in range(1, count + 1)]
    # Who ends in the header of a page reads the record behind that, and who begins there does, too.
    ends = sorted({end, *(cut for cut in map(between_records, cuts) if cut > at)})
    beside = [
        WindowTask(uuid.uuid4().hex, upto=show_position(upto), start=show_position(start))
        for start, upto in pairwise(ends)
    ]
    return [WindowTask(block, upto=show_position(ends[0])), *beside]


def read_windows(job: Job, tasks: Sequence[WindowTask], reader: ChangeReader) -> list[FinishedWindow] | None:
    """Read windows at the same time; None: some could not be read, which may be due to that.

    :raises SparkNeededError: there is more than small work in them, and the job may do no other.
    """
    try:
        job.claim(0)  # no stored files: what is read of the log has a bound of its own
        return job.map("reading changes", tasks, reader, estimated_rows=0)
    except TooMuchError as error:
        raise SparkNeededError(sentence(error)) from error
    except SparkEndedError:
        raise
    except HoldfastError as error:
        if len(tasks) == 1:
            raise
        job.check()
        job.say(f"from here on one window is read at a time, since of two one could not be: {sentence(error)}")
        return None
