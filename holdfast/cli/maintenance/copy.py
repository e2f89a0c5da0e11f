"""`holdfast copy`: a new copy of an archive, or an update of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive.maintenance import copy_archive
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.words import counted, human_size
from holdfast.operations.requests.copy import CopyRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.archive.maintenance.copy_archive import Copied, CopyProgress
    from holdfast.storage import ObjectStore


@takes(CopyRequest)
def copy(
    url: Annotated[str, typer.Argument(metavar="FROM", help="The archive: its URL, or a name in archives.yaml.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="An empty place, or an earlier copy of this archive.")],
    request: CopyRequest,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Copy an archive to another store, or bring an earlier copy up to date; run it again after a kill."""
    output = Output(as_json=as_json)
    archive = places.resolve(url)
    source, target = archive.open(), places.archive_store(to, request.to_key, archive.keys)
    if request.dry_run:
        copied = copy_archive.plan(source, target, before_damage=request.before_damage)
    else:
        copied = copy_archive.copy(
            source,
            target,
            deep=request.deep,
            before_damage=request.before_damage,
            wait=wait,
            on_progress=lambda progress: output.report(_progress(progress), every_s=2.0),
        )
    value = _described(source, target, copied) | ({"dry_run": True} if request.dry_run else {})
    output.result(value, _lines(value))


def _progress(progress: CopyProgress) -> str:
    files = f"{progress.files:,} of {progress.all_files:,} files"
    return f"{files}, {human_size(progress.size)} of {human_size(progress.all_size)}"


def _described(source: ObjectStore, target: ObjectStore, copied: Copied) -> dict[str, Any]:
    return {
        "archive": copied.archive.id,
        "name": copied.archive.name,
        "from": source.url,
        "to": target.url,
        "commit": copied.commit,
        "commits": copied.commits,
        "files": copied.files,
        "bytes": copied.size,
        "skipped": copied.skipped,
        "replaced": copied.replaced,
        "left_out": copied.left_out or None,
    }


def _lines(value: dict[str, Any]) -> Iterator[str]:
    verb = "would copy" if value.get("dry_run") else "copied"
    replaced = f", {value['replaced']} of them in place of damaged ones" if value["replaced"] else ""
    yield (
        f"{verb} {value['name']} to {value['to']}: {counted(value['files'], 'file')} ({human_size(value['bytes'])})"
        f"{replaced}, {value['skipped']:,} were there; {counted(value['commits'], 'commit')}, up to commit "
        f"{value['commit']}"
    )
    if value["left_out"]:
        yield f"left out after that commit: {value['left_out']}"
