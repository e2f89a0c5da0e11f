"""`holdfast mark`: a name for the present position of a source, as a recovery target. Works with Airflow down."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from holdfast.operations.marks import check_name, mark_source
from holdfast.operations.requests.mark import MarkRequest


def mark(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name, such as 'before 4.2'.")],
    source: Annotated[
        str | None, typer.Option(help="A name in archives.yaml, or an address; default is the archive's only source.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Name the present position of a source, as a recovery target (--at NAME).

    You can restore to it after the next incremental backup, with the definitions as they are now.
    """
    output = Output(as_json=as_json)
    check_name(name)
    value = mark_now(url, source or only_source(url), name)
    output.result(value, mark_sentence(value))


def mark_now(url: str, source: str, name: str) -> dict[str, Any]:
    """Set a mark, and return its summary."""
    known, configured, address = places.source(url, source)
    return mark_source(places.replicas(url), MarkRequest.given(name=name, source=known), configured, address)


def mark_sentence(value: dict[str, Any]) -> str:
    """Return the sentence that reports a mark."""
    note = value["schema_note"]
    return (
        f"marked {value['mark']!r} in {value['source']} at {value['position']}, {value['at']}: "
        "you can restore to it after the next incremental backup"
        + (f"; its schema is approximate: the definitions were not recorded ({note})" if note else "")
    )


def only_source(url: str) -> str:
    """Return the source that archives.yaml names for an archive. Raises UsageError: it names none, or several."""
    names = sorted(places.resolve(url).settings.sources)
    if len(names) == 1:
        return names[0]
    raise UsageError(f"say which source with --source; archives.yaml names {', '.join(names) or 'none'} for {url}")
