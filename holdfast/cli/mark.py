"""`holdfast mark`: give a moment of a source a name, under which it can be restored. Works with Airflow down."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import typer

from holdfast.archive import Archive
from holdfast.archive.model import iso
from holdfast.cli import places
from holdfast.cli.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.output import Output
from holdfast.errors import RefusedError, UsageError
from holdfast.sources.postgresql.moment import emit
from holdfast.sources.postgresql.session import connect, server_error
from holdfast.sources.postgresql.stream import look, stream_name

if TYPE_CHECKING:
    from holdfast.sources.postgresql.address import Address

PREFIX = "holdfast"
"""Of the message in the source's log that carries the name."""

_LONGEST = 100


def mark(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the moment is called, such as 'before 4.2'.")],
    source: Annotated[
        str | None, typer.Option(help="A name in archives.yaml, or an address; default is the archive's only source.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give this moment of a source a name, to restore it by (--at NAME).

    It is written into the source's log, and known to the archive after the next backup of changes.
    """
    output = Output(as_json=as_json)
    check_name(name)
    known, _, address = places.source(url, source or _only_source(url))
    archive = Archive.open(places.archive_store(url))
    position, at = _write(address, stream_name(archive.identity.id, known), known, name)
    value = {"mark": name, "source": known, "position": position, "at": iso(at)}
    output.result(value, lambda console: console.print(_said(value), markup=False))


def _said(value: dict[str, Any]) -> str:
    return (
        f"marked {value['mark']!r} in {value['source']} at {value['position']}, {value['at']}: "
        "restorable after the next backup of changes"
    )


def _only_source(url: str) -> str:
    names = places.source_names(url)
    if len(names) == 1:
        return names[0]
    raise UsageError(f"say which source with --source; archives.yaml names {', '.join(names) or 'none'} for {url}")


def check_name(name: str) -> None:
    """Make sure that a name can be a mark's, and nothing else that `--at` could mean.

    :raises UsageError: it cannot.
    """
    if not 0 < len(name) <= _LONGEST or not name.isprintable() or name != name.strip():
        raise UsageError(f"a mark's name has 1 to {_LONGEST} printable characters, and no blank at its ends")
    meaning = name.partition(":")[0].lower()
    is_time = False
    with suppress(ValueError):
        is_time = datetime.fromisoformat(name) is not None
    if is_time or meaning in ("latest", "commit", "lsn", "mark"):
        raise UsageError(f"{name!r} means something else to --at: choose another name for the mark")


def _write(address: Address, stream: str, source: str, name: str) -> tuple[str, datetime]:
    with connect(address) as session:
        state = look(session, stream)
        if state is None or state.lost or not state.usable:
            raise RefusedError(
                f"nobody would read the mark: {source}'s changes are not backed up into this archive "
                f"({f'slot {stream} is lost' if state else f'it has no slot {stream}'}): begin with "
                "holdfast backup … --kind changes"
            )
        try:
            return emit(session, PREFIX, json.dumps({"mark": name}))
        except psycopg.Error as error:
            raise server_error(f"{source} took no mark", error) from error
