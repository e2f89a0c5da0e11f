"""What the shipped code would ask of its machine, answered by the explorer."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TypeVar
from unittest.mock import patch

from holdfast.archive import archive as archive_module
from holdfast.archive.format import claim as claim_module
from holdfast.archive.format import commit_folder as folder_module
from locking import Owner
from locking import reaper as reaper_module
from tests.support.explorer.clients import commit_id, process_is_gone

S = TypeVar("S")
T = TypeVar("T")


def _do_in_place(work: Callable[[S], T], each: Iterable[S], *, at_once: int) -> list[T]:
    """Do the work where it is asked for, so that requests keep their order."""
    del at_once
    return list(map(work, each))


@contextmanager
def surroundings() -> Iterator[None]:
    """Clients that know who they are, whose processes end when the explorer says so; no threads, no logs."""
    with (
        patch.object(Owner, "here", lambda self: self),
        patch.object(reaper_module, "process_is_gone", process_is_gone),
        patch.object(folder_module, "do_side_by_side", _do_in_place),
        patch.object(claim_module, "time", SimpleNamespace(sleep=lambda seconds: None)),
        patch.object(archive_module, "uuid", SimpleNamespace(uuid4=commit_id)),
        _silence(),
        _no_collector(),
    ):
        yield


@contextmanager
def _no_collector() -> Iterator[None]:
    """Worlds are many and hold no cycles; looking for some takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
