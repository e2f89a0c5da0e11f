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
from holdfast.common.words import counted, human_size
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.operations.sentences import restore_sentence
from holdfast.point_in_time import schema_choice
from holdfast.postgresql.restore.plan.name_maps import NameMaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHOWN_LINES = 10
"""Lines of a statement, at most."""


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
    output.result(value, plan_lines(value) if request.dry_run else restore_sentence(value))


def plan_lines(value: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a restore's plan."""
    plan = value["plan"]
    yield (
        f"would restore {value['source']} to {value['restored_to']} (commit {value['commit']}): "
        f"{_rows(value)} of {counted(value['tables'], 'table')}, {human_size(value['bytes'])} stored"
    )
    yield from (f"  {_renamed(table['from'], table['to'])}: {_rows(table)}" for table in plan["tables"])
    yield f"on the source's disk, these tables had {human_size(value['disk_bytes'])} without their indexes"
    roles = plan["roles"]
    paragraphs = {
        "with older rows": map(_stale, value.get("stale", ())),
        "the schema is approximate": filter(None, [value.get("schema_note")]),
        "with them": _kinds(plan["objects"]),
        "renamed with their tables": (_renamed(each["from"], each["to"]) for each in plan["renamed"]),
        "in the target already, left as they are": plan["skipped_existing"],
        "in the target, affected": plan["touches"],
        "settings of the database itself": plan["database"],
        "roles that will be created": roles["created"],
        "roles that will need a password to log in": roles["without_password"],
        "roles that the restoring role joins, since they own objects": roles["joined"],
        "roles that are there, left as they are": roles["differences"],
        "texts with old names, left as they are": plan["unchanged"],
        "not restored": (line for each in plan["not_restored"] for line in _not_restored(**each)),
    }
    for title, lines in paragraphs.items():
        if indented := [f"  {line}" for line in lines]:
            yield f"{title}:"
            yield from indented
    yield "nothing was changed"


def _rows(value: Mapping[str, Any]) -> str:
    changes = f" and {counted(value['changes'], 'change')} since" if value["changes"] else ""
    return f"{counted(value['rows'], 'row')}{changes}"


def _stale(stale: Mapping[str, Any]) -> str:
    as_of = f"as of {stale['as_of']}" if stale["as_of"] else "none"
    whole = f"; complete again at {stale['whole_at']}" if stale.get("whole_at") else ""
    return f"{stale['table']}: {as_of}: {stale['reason']}{whole}"


def _not_restored(object: str, reason: str, statement: str) -> Iterator[str]:
    """Yield an object, and the beginning of the statement that adds it later; --json has it whole."""
    lines = [line for line in statement.splitlines() if line.strip()]
    yield f"{object}: {reason}"
    yield from (f"  {line}" for line in lines[:_SHOWN_LINES])
    if lines[_SHOWN_LINES:]:
        yield "  …"


def _renamed(old: str, new: str) -> str:
    return old if old == new else f"{old} → {new}"


def _kinds(objects: list[dict[str, str]]) -> list[str]:
    kinds = Counter(each["kind"] for each in objects)
    return [", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))] if kinds else []
