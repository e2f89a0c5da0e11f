"""`holdfast metrics`: metrics of archives for Prometheus. Works with Airflow down."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json  # noqa: TC001 - typer reads it at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError
from holdfast.common.units import parse_span
from holdfast.config.archives_model import SQLITE, ArchiveConfig
from holdfast.config.archives_yaml import archive_at, find_config, read_archives
from holdfast.metrics.collect import ObservedArchive, collect
from holdfast.metrics.exposition import check_target, render, write
from holdfast.metrics.serving import ListenAddress, serve
from holdfast.replication.log.settings import COORDINATION_VARIABLE
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.config.archives_yaml import ReadArchives
    from holdfast.postgresql.connection.address import Address

Archives = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARCHIVE", help="Names in archives.yaml, or URLs. Default is all of archives.yaml."),
]


def metrics(
    archives: Archives = None,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write them there, for node_exporter's textfile collector."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve them at /metrics until stopped; without a host, on 127.0.0.1."),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="SPAN", help="With --listen: the time between two collections.")
    ] = "60s",
    listing: Annotated[
        bool, typer.Option("--listing", help="Also metrics that list all objects: unneeded bytes, how jobs ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print metrics of archives, their sources' servers and their replicas, for Prometheus.

    Nothing is changed. If a part cannot be read, its gauge is 0, stderr says why, and the exit code is 1.
    """
    output = Output(as_json=as_json)
    if listen is not None:
        if output_file is not None or as_json:
            raise UsageError("--listen serves the metrics: leave --output and --json out")
        _serve(archives or [], ListenAddress.parse(listen), every, listing=listing, output=output)
        return
    if output_file is not None:
        check_target(output_file)
    collected = collect(observed(archives or []), listing=listing)
    if output_file is not None:
        write(output_file, render(collected.samples))
    value = {"samples": [each.describe() for each in collected.samples], "problems": collected.problems}
    output.result(value, [] if output_file is not None else render(collected.samples).decode().splitlines())
    for problem in collected.problems:
        output.say(f"holdfast: {problem}")
    if collected.problems:
        raise typer.Exit(1)


def _serve(archives: Sequence[str], address: ListenAddress, every: str, *, listing: bool, output: Output) -> None:
    every_s = parse_span(every).total_seconds()
    if every_s < 1:
        raise UsageError("--every must be 1s or more: each collection asks every archive and server")
    observed(archives)  # mistakes end the command now
    with suppress(KeyboardInterrupt):
        serve(
            address,
            lambda: collect(observed(archives), listing=listing),
            every_s=every_s,
            say=lambda words: output.say(f"holdfast: {words}"),
        )


def observed(archives: Sequence[str]) -> list[ObservedArchive]:
    """Return the archives to collect from.

    :param archives: names in archives.yaml, or URLs; none: all of archives.yaml.
    :raises UsageError: there are none, or one is invalid.
    """
    path = find_config()
    read = read_archives(path) if path else None
    words = list(archives) or ([*read.archives, *read.mistakes] if read else [])
    if not words:
        raise UsageError("no archive to collect from: name one here, or in archives.yaml")
    chosen = [_observed(word, read) for word in words]
    unique = {(each.name, *(() if each.name else each.places)): each for each in reversed(chosen)}
    return list(reversed(unique.values()))


def _observed(word: str, read: ReadArchives | None) -> ObservedArchive:
    if read is not None and word in read.mistakes:
        return ObservedArchive(word, mistake=read.mistakes[word])
    if read is None or (named := read.find(word)) is None:
        config = archive_at(word)
        return _configured(None, config, [config.location()])
    name, config = named
    urls = [config.url, *(config.replicas or {}).values()] if word == name else [word]
    return _configured(name, config, [url for url in urls if url])


def _configured(name: str | None, config: ArchiveConfig, urls: Sequence[str]) -> ObservedArchive:
    return ObservedArchive(
        name,
        places={url: partial(open_store, url, config.key, config.signs) for url in urls},
        sources=config.sources,
        addresses=dict(_addresses(name, config)),
        coordination=os.environ.get(COORDINATION_VARIABLE) or config.store if config.replicas else None,
        grace=parse_span(config.vacuum.grace),
    )


def _addresses(name: str | None, config: ArchiveConfig) -> Iterator[tuple[str, Address]]:
    for source, settings in config.sources.items():
        if name is not None and not (settings.url or "").startswith(SQLITE):
            with suppress(UsageError):  # only Airflow knows the address
                yield source, places.source(name, source)[2]
