"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.replication.log.settings import COORDINATION_VARIABLE

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="The archive: a folder, file://…, s3://…, az://…, gs://…, or a name in archives.yaml."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for locks of others.", min=0)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts, and where there is no terminal.")]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The coordination store: sqlite:////path/file.db or postgresql://user@host:port/database, without a "
        f"password. Default is {COORDINATION_VARIABLE}, then 'store' in archives.yaml.",
    ),
]
