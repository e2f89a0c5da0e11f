"""Work cut into tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")


def pack(items: Iterable[_T], weight: Callable[[_T], int], *, room: int, most: int = 100) -> list[list[_T]]:
    """Pack items into even tasks of about `room`, the heaviest first, neighbours together.

    Ten thousand tiny tables become a few hundred tasks. What is as heavy as `room` is one alone.

    :param most: items in one task, at most.
    """

    def needed(item: _T) -> int:
        return max(weight(item), room // most)

    tasks: list[list[_T]] = []
    left = 0
    for item in sorted(items, key=needed, reverse=True):
        if not tasks or needed(item) > left:
            tasks.append([])
            left = room
        tasks[-1].append(item)
        left -= needed(item)
    return tasks
