"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="The archive: a folder, file://…, s3://…, az://…, gs://…, or a name in archives.yaml."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for locks that others hold.", min=0)]
