"""Strangers: objects in a folder of an archive that Holdfast has not put there, such as `.DS_Store`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.common.words import named
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from locking.store import ObjectInfo

log = line_logger(__name__)

_NAMED_AT_ONCE: Final = 3
_warned: set[tuple[str, str]] = set()


def without_strangers(
    url: str, folder: str, infos: Iterable[ObjectInfo], is_ours: Callable[[str], object]
) -> list[ObjectInfo]:
    """Return the objects whose names are ours in a folder, and name the first others once in this process."""
    ours: list[ObjectInfo] = []
    strangers: list[str] = []
    for info in infos:
        if is_ours(info.key):
            ours.append(info)
        else:
            strangers.append(info.key)
    if strangers and (url, folder) not in _warned:
        _warned.add((url, folder))
        log.warning(
            "Not of Holdfast, and ignored: %s in %s. Remove what is not needed.",
            named(strangers, limit=_NAMED_AT_ONCE),
            url,
        )
    return ours
