"""Shared options and functions of commands that read an archive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.cli.shared import places
from holdfast.common.side_by_side import NoAnswerError, ask_side_by_side
from holdfast.config.archives_model import Consistency
from holdfast.replication.work.consistent_read import open_first, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.cli.shared.output import Output
    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.replication.work.consistent_read import Opened
    from holdfast.storage import ObjectStore

Consistent = Annotated[
    Consistency | None,
    typer.Option(
        "--consistency",
        help="'sequential': from a replica that has every backup whose quorum has succeeded, and without those that "
        "wait for it or have failed. 'eventual': what the replica has. Default is what archives.yaml says, else that.",
    ),
]


LIMIT_S = 30.0
"""So many seconds a place has for its first answer: as long as one request may take, and not all its repetitions."""


def open_archive(url: str, consistency: Consistency | None, coordination: str | None) -> tuple[ArchiveContext, Opened]:
    """Open an archive to read it at a consistency.

    Of several replicas, where none was named, the first that can be read so. The context is of that one.

    :param consistency: as the option says; None for what archives.yaml says.
    :param coordination: address of the coordination store, as the option says.
    :raises NoAnswerError: nothing has answered there in time, where one place is read.
    """
    archive = places.resolve(url, coordination=coordination)
    wanted = consistency or archive.settings.consistency
    replicas = places.replicas(url, coordination=coordination) if wanted == "sequential" else [archive]
    stores = [replica.open() for replica in replicas]
    if len(stores) == 1:
        _check_answers(stores[0])
    opened = open_first(stores, wanted, address=archive.coordination)
    return archive.at(opened.store.url), opened


def _check_answers(store: ObjectStore) -> None:
    answer = ask_side_by_side({store.url: partial(store.head, IDENTITY_KEY)}, limit_s=LIMIT_S)[store.url]
    if isinstance(answer, NoAnswerError):
        raise NoAnswerError(
            f"{store.url} has not answered within {LIMIT_S:g} s: is the mount, the server or the network there? "
            "Another replica, or a copy, is read by its own URL"
        )


def say_read_from(output: Output, read_from: Mapping[str, Any]) -> None:
    """Report the replica that was read, and its freshness.

    An archive without replicas has no such report.
    """
    if words := words_of(read_from):
        output.say(words)
