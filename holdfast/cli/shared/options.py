"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from holdfast.operations.requests.base import NO_LOCK
from holdfast.replication.log.settings import COORDINATION_VARIABLE

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="The archive: a folder, file://…, s3://…, az://…, gs://…, or a name in archives.yaml."
    ),
]
SchemaTaken = Annotated[
    Literal["auto", "earlier", "later"],
    typer.Option(
        "--schema",
        help="Where it was changed between two backups, and it is not known when: the one before or after, or the one "
        "that serves best.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for what others hold.", min=0)]
NoLock = Annotated[bool, typer.Option("--no-lock", help=NO_LOCK.help)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts, and where there is no terminal.")]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The coordination store: sqlite:////path/file.db or postgresql://user@host:port/database, without a "
        f"password. Default is {COORDINATION_VARIABLE}, then 'store' in archives.yaml.",
    ),
]
