"""`holdfast mark`: a name for the present position of a source, as a recovery target. Works with Airflow down."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from holdfast.operations.mark_run import mark_source
from holdfast.operations.marks import check_name
from holdfast.operations.requests.mark import MarkRequest


def mark(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the moment is called, such as 'before 4.2'.")],
    source: Annotated[
        str | None, typer.Option(help="A name in archives.yaml, or an address; default is the archive's only source.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Name the present position of a source, as a recovery target (--at NAME).

    It is written into the source's log, and known to the archive after the next backup of changes. Definitions are read
    with it, so that what a migration does next takes nothing from this moment.
    """
    output = Output(as_json=as_json)
    check_name(name)
    value = mark_now(url, source or only_source(url), name)
    output.result(value, lambda console: console.print(said_of_mark(value), markup=False))


def mark_now(url: str, source: str, name: str) -> dict[str, Any]:
    """Set a mark, and return its summary."""
    known, configured, address = places.source(url, source)
    return mark_source(places.replicas(url), MarkRequest.given(name=name, source=known), configured, address)


def said_of_mark(value: dict[str, Any]) -> str:
    """Return the sentence that reports a mark."""
    note = value["schema_note"]
    return (
        f"marked {value['mark']!r} in {value['source']} at {value['position']}, {value['at']}: "
        "restorable after the next backup of changes"
        + (f"; what the definitions were is as well known as between two backups ({note})" if note else "")
    )


def only_source(url: str) -> str:
    """Return the source that archives.yaml names for an archive.

    :raises UsageError: it names none, or several.
    """
    names = sorted(places.resolve(url).settings.sources)
    if len(names) == 1:
        return names[0]
    raise UsageError(f"say which source with --source; archives.yaml names {', '.join(names) or 'none'} for {url}")
