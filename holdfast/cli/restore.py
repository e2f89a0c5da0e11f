"""`holdfast restore`, and the plan that its dry run prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points
from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Store, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.reading import Consistent, open_archive, say_read_from
from holdfast.cli.shared.request_options import takes
from holdfast.common.words import human_size
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.operations.sentences import restore_sentence
from holdfast.point_in_time import schema_choice
from holdfast.postgresql.restore.plan.name_maps import NameMaps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

_SHOWN_LINES = 10
"""Of a statement."""


@takes(RestoreRequest)
def restore(
    url: Url,
    to: Annotated[str, typer.Option(help="The database to restore into: an address, or a name in archives.yaml.")],
    request: RestoreRequest,
    source: Annotated[
        str | None,
        typer.Option(help="The source to restore; needed where the archive holds several, unless --at names a commit."),
    ] = None,
    consistency: Consistent = None,
    store: Store = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Restore a database, or tables of it, and prove them equal to the archive."""
    output = Output(as_json=as_json)
    NameMaps.parse(request.map)
    archive, opened = open_archive(url, consistency, store)
    moment = schema_choice.resolve(
        opened.state,
        opened.store,
        restore_points.only_source(opened.state, source, request.at),
        request.at,
        request.schema_choice,
    )
    address = places.target(url, to)
    output.say(f"to restore: {moment.source} as of {iso(moment.at)}, {moment}")
    for left_out in moment.schema.block.not_included:
        output.say(f"not included: {left_out}")
    value = run_job(
        archive,
        request.with_values(
            source=source, consistency=None if opened.consistency == "eventual" else opened.consistency
        ),
        database=address,
        wait=wait,
        output=output,
    )
    say_read_from(output, value["read_from"])
    output.result(
        value, lambda console: show_plan(console, value) if request.dry_run else _show_restored(console, value)
    )


def _show_restored(console: Console, value: dict[str, Any]) -> None:
    console.print(restore_sentence(value), markup=False)


def show_plan(console: Console, value: dict[str, Any]) -> None:
    """Print the plan of a restore."""
    plan = value["plan"]
    lines = [
        f"would restore {value['source']} to {value['restored_to']} (commit {value['commit']}): "
        f"{_rows(value)} of {value['tables']} tables, {human_size(value['bytes'])} stored",
        *(f"  {_renamed(table['from'], table['to'])}: {_rows(table)}" for table in plan["tables"]),
        f"on the source's disk, these tables had {human_size(value['disk_bytes'])} without their indexes",
        *_paragraph("with rows that are older", [_stale(each) for each in value.get("stale", ())]),
        *_paragraph("the schema is approximate", [value["schema_note"]] if value.get("schema_note") else []),
        *_paragraph("with them", _counted(plan["objects"])),
        *_paragraph(
            "renamed with their tables",
            [_renamed(each["from"], each["to"]) for each in plan["renamed"]],
        ),
        *_paragraph("in the target already, left as they are", plan["skipped_existing"]),
        *_paragraph("of the target's own", plan["touches"]),
        *_paragraph("of the database itself", plan["database"]),
        *_paragraph("roles that will be created", plan["roles"]["created"]),
        *_paragraph("roles that will need a password to log in", plan["roles"]["without_password"]),
        *_paragraph("roles that who restores becomes a member of, as they own something", plan["roles"]["joined"]),
        *_paragraph("roles that are there, left as they are", plan["roles"]["differences"]),
        *_paragraph("speak of old names in texts that are not changed", plan["unchanged"]),
    ]
    left = [line for each in plan["not_restored"] for line in _not_restored(**each)]
    for line in (*lines, *_paragraph("not restored", left), "nothing was changed"):
        console.print(line, markup=False)


def _rows(counted: Mapping[str, Any]) -> str:
    """Return the rows of a snapshot, and the changes since that are applied to them."""
    changes = f" and {counted['changes']:,} changes since" if counted["changes"] else ""
    return f"{counted['rows']:,} rows{changes}"


def _stale(stale: Mapping[str, Any]) -> str:
    as_of = f"as of {stale['as_of']}" if stale["as_of"] else "none"
    again = f"; whole again at {stale['whole_at']}" if stale.get("whole_at") else ""
    return f"{stale['table']}: {as_of}: {stale['reason']}{again}"


def _not_restored(object: str, reason: str, statement: str) -> list[str]:
    """Return lines about an object that is not restored.

    The statement that adds it later is cut short where it is long: --json has it whole.
    """
    lines = [line for line in statement.splitlines() if line.strip()]
    return [
        f"{object}: {reason}",
        *(f"  {line}" for line in lines[:_SHOWN_LINES]),
        *["  …"][: len(lines) > _SHOWN_LINES],
    ]


def _paragraph(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _renamed(old: str, new: str) -> str:
    return old if old == new else f"{old} → {new}"


def _counted(objects: list[dict[str, str]]) -> list[str]:
    kinds = Counter(each["kind"] for each in objects)
    return [", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))] if kinds else []
