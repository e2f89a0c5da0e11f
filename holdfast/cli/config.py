"""`holdfast config`: the mistakes in archives.yaml, and its schema for editors. Works with Airflow down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.shared.options import Json  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from holdfast.config.archives_model import Config
from holdfast.config.archives_yaml import read_archives

if TYPE_CHECKING:
    from collections.abc import Iterator

config_app = typer.Typer(
    name="config", help="The configuration file, archives.yaml: its mistakes and its schema.", no_args_is_help=True
)


@config_app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="The file; without it, HOLDFAST_ARCHIVES, else archives.yaml here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print all mistakes, each with its line and its correction; exit code 2 where there is one.

    What only Airflow knows, such as whether a notifier is installed, is checked by the DAG files.
    """
    output = Output(as_json=as_json)
    read = read_archives(file)
    value = {
        "file": str(read.path),
        "archives": sorted(read.archives),
        "mistakes": dict(read.mistakes),
        "further": {name: list(sentences) for name, sentences in read.further.items() if sentences},
    }
    output.result(value, _lines(value))
    if read.mistakes:
        raise typer.Exit(UsageError.exit_code)


@config_app.command()
def schema(as_json: Json = False) -> None:
    """Print the JSON schema of archives.yaml, for completion and checks in editors."""
    value = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    Output(as_json=True).result(value, "")


def _lines(value: dict[str, Any]) -> Iterator[str]:
    for name, first in value["mistakes"].items():
        yield from (first, *value["further"].get(name, ()))
    yield f"{value['file']}: archives without a mistake: {', '.join(value['archives']) or 'none'}"
