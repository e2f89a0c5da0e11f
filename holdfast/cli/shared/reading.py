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
        help="'sequential': every backup whose quorum has succeeded, and no other. 'eventual': what the first replica "
        "has. Default is the setting in archives.yaml, else 'eventual'.",
    ),
]


LIMIT_S = 30.0
"""Seconds for the first answer of a store: the time of one request, without its repetitions."""


def open_archive(url: str, consistency: Consistency | None, coordination: str | None) -> tuple[ArchiveContext, Opened]:
    """Open an archive, or the first of its replicas that can be read at a consistency.

    :param consistency: the option; None for that of archives.yaml.
    :param coordination: the option with the address of the coordination store.
    :raises NoAnswerError: the only store has not answered in time.
    """
    archive = places.resolve(url, coordination=coordination)
    consistency = consistency or archive.settings.consistency
    replicas = places.replicas(url, coordination=coordination) if consistency == "sequential" else [archive]
    stores = [replica.open() for replica in replicas]
    if len(stores) == 1:
        _check_answers(stores[0])
    opened = open_first(stores, consistency, address=archive.coordination)
    return archive.at(opened.store.url), opened


def _check_answers(store: ObjectStore) -> None:
    answer = ask_side_by_side({store.url: partial(store.head, IDENTITY_KEY)}, limit_s=LIMIT_S)[store.url]
    if isinstance(answer, NoAnswerError):
        raise NoAnswerError(
            f"{store.url} has not answered within {LIMIT_S:g} s: check the mount, the server and the network. "
            "To read another replica, or a copy, name its own URL"
        )


def say_read_from(output: Output, read_from: Mapping[str, Any]) -> None:
    """Report the replica that was read, and its freshness; nothing for an archive without replicas."""
    if words := words_of(read_from):
        output.say(words)
