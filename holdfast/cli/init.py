"""`holdfast init`: a new archive. Works with Airflow down."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

import typer

from holdfast.archive import Archive
from holdfast.archive.format.versions import FORMAT
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output


def init(
    url: Url,
    name: Annotated[str | None, typer.Option(help="The archive's name; default is the end of its URL.")] = None,
    number: Annotated[int, typer.Option("--format", help="Its format; 1 lets older releases read it.")] = FORMAT,
    as_json: Json = False,
) -> None:
    """Create an archive in an empty place."""
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    archive = Archive.create(store, name=name or PurePosixPath(store.url.rstrip("/")).name or "archive", number=number)
    value = {
        "archive": archive.identity.id,
        "name": archive.identity.name,
        "url": store.url,
        "format": archive.identity.format,
        "encrypted": store.is_encrypted,
    }
    kind, opened = ("encrypted archive", f", opened by {store.key}") if store.is_encrypted else ("archive", "")
    output.result(value, f"created {kind} {archive.identity.name} at {store.url}{opened}")
