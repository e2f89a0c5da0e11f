"""`holdfast source`: a database's readiness for backups, and its setup. Works with Airflow down."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive.format.document import iso
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json  # noqa: TC001 - typer reads it at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.streams import expected_in, left_streams, other_streams, stream_names, waiting_in
from holdfast.common.errors import BusyError, HoldfastError, RefusedError, UsageError
from holdfast.common.units import parse_size
from holdfast.common.words import human_size
from holdfast.postgresql.connection.reading_role import reader_of
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream_state import MAX_RETAINED_BYTES
from holdfast.postgresql.setup.grants import plan_reader, plan_remove, plan_setup, script
from holdfast.postgresql.setup.grants import run as run_plan
from holdfast.postgresql.setup.readiness import (
    Readiness,
    check_clients,
    check_database,
    check_server,
    choose_databases,
)
from holdfast.postgresql.setup.stream_readiness import check_stream
from holdfast.postgresql.setup.stream_rights import WantedStream
from holdfast.postgresql.setup.tls_readiness import check_tls, describe
from holdfast.postgresql.snapshot.obstacles import Obstacle
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from holdfast.config.archives_model import SourceConfig
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.stream_state import ExpectedStream
    from holdfast.postgresql.setup.grants import Plan

source_app = typer.Typer(
    name="source",
    help="Is a database ready to be backed up, and what makes it so. Works with Airflow down.",
    no_args_is_help=True,
)

Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="A name in archives.yaml, or postgresql://user@host:port/database."),
]
InArchive = Annotated[
    str | None,
    typer.Option("--archive", metavar="URL", help="Whose source it is, where several archives have one of this name."),
]
Databases = Annotated[
    list[str] | None,
    typer.Option("--databases", metavar="GLOB", help="These databases of SOURCE's server, instead of that one."),
]


@dataclass(frozen=True)
class _Line:
    """A problem or a warning as it is shown; `database` is None where it is of the whole server."""

    database: str | None
    what: str
    do: str


@source_app.command()
def check(
    source: Source,
    databases: Databases = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Also what backups of changes need, and how their stream is.")
    ] = False,
    archive: InArchive = None,
    as_json: Json = False,
) -> None:
    """Report whether a backup would work, with all obstacles; reads the catalog only and changes nothing.

    Exit codes: 0 it would work, 5 it would be refused or fail, 1 the server cannot be reached.
    """
    output = Output(as_json=as_json)
    configured, address = places.database(source, archive)
    server = check_server(address)
    major = server.facts["major"]
    clients = check_clients(major, tls=address.tls)
    shared = (check_tls(address, major), clients, server)
    found = {name: _look(at, configured, address) for name, at in _each(address, databases)}
    if changes:
        names = stream_names(source, archive, address.database, found)
        own, expected = address.database, expected_in(source, archive, names.get(address.database))
        found = {
            each: _with_stream(
                address.at_database(each),
                look,
                names.get(each),
                configured if each == own else None,
                expected if each == own else None,
            )
            for each, look in found.items()
        }
        if names.get(own):
            found[own] = replace(found[own], warnings=(*found[own].warnings, *_waiting(source, archive)))
    problems = _lines(
        [problem for each in shared for problem in each.problems], {name: each.problems for name, each in found.items()}
    )
    warnings = _lines(
        [warning for each in shared for warning in each.warnings], {name: each.warnings for name, each in found.items()}
    )
    facts = {name: fact for each in shared for name, fact in each.facts.items()}
    facts["databases"] = {name: each.facts for name, each in found.items()}
    value = {
        "ok": not problems,
        "problems": [asdict(line) for line in problems],
        "warnings": [asdict(line) for line in warnings],
        "facts": facts,
    }
    output.result(value, lambda console: _show(console, address, facts, problems, warnings))
    if problems:
        output.say("holdfast: a backup would be refused or fail: mend what is marked FAIL")
        raise typer.Exit(RefusedError.exit_code)


def _waiting(source: str, archive: str | None) -> Iterator[Obstacle]:
    """Yield a warning about each table that waits to start over.

    The newest rows of such a table are in no backup.
    """
    for each in waiting_in(source, archive):
        do = "mend that, and back up again" if each.act else "the next backup tries again"
        yield Obstacle(f"{each.table} waits since {iso(each.since)} to begin anew: {each.reason}", do)


def _each(address: Address, globs: Sequence[str] | None) -> Iterator[tuple[str, Address]]:
    """Yield the databases that are meant, each with its address."""
    if not globs:
        yield address.database, address
        return
    with connect(address) as session:
        names = choose_databases(session, globs)
    for name in names:
        yield name, address.at_database(name)


def _look(at: Address, configured: SourceConfig, named: Address) -> Readiness:
    try:
        if at.database == named.database:
            return check_database(at, configured.tables, configured.exclude)
        return check_database(at)
    except BusyError:
        raise
    except HoldfastError as error:
        what, _, do = str(error).rpartition(": ")
        return Readiness({}, (Obstacle(what, do),), ())


def _with_stream(
    at: Address,
    found: Readiness,
    name: str | None,
    configured: SourceConfig | None,
    expected: ExpectedStream | None,
) -> Readiness:
    """Add the findings about a database's stream; none where the database could not be examined."""
    if not found.facts:
        return found
    globs, exclude = (configured.tables, configured.exclude) if configured else ((), ())
    limit = parse_size(configured.max_retained_wal) if configured else MAX_RETAINED_BYTES
    stream = check_stream(at, name, globs, exclude, expected=expected, limit_bytes=limit)
    facts = {**found.facts, "changes": stream.facts}
    return Readiness(facts, found.problems, (*found.warnings, *stream.warnings))


def _lines(server: Sequence[Obstacle], databases: Mapping[str, Sequence[Obstacle]]) -> list[_Line]:
    of_server = [_Line(None, each.what, each.do) for each in server]
    return of_server + [_Line(name, each.what, each.do) for name, found in databases.items() for each in found]


def _show(
    console: Console, address: Address, facts: Mapping[str, Any], problems: list[_Line], warnings: list[_Line]
) -> None:
    kind = "a standby, " if facts["standby"] else ""
    console.print(
        f"PostgreSQL {facts['server']} at {address.url}: {kind}role {facts['role']}, wal_level {facts['wal_level']}",
        markup=False,
    )
    console.print(f"TLS: {describe(facts['tls'])}", markup=False)
    several = len(facts["databases"]) > 1
    for name, found in facts["databases"].items():
        refused = any(line.database in (None, name) for line in problems)
        size = f"{found['tables']:,} tables, {human_size(found['bytes'])}" if found else "not seen"
        console.print(f"{'FAIL' if refused else 'ok  '} {name}: {size}{_slot_words(found)}", markup=False)
    for word, lines in (("FAIL", problems), ("warn", warnings)):
        for line in lines:
            console.print(
                f"{word} {f'{line.database}: ' if several and line.database else ''}{line.what}", markup=False
            )
            console.print(f"     {line.do}", markup=False)


def _slot_words(facts: Mapping[str, Any]) -> str:
    """Return how much of the log the slot of a database keeps, and how much more it may; "" where there is none."""
    stream = (facts.get("changes") or {}).get("stream")
    if stream is None:
        return ""
    left = stream["safe_wal_size"]
    more = "" if left is None else f"; after {human_size(left)} more the server gives it up"
    return f"; slot {stream['slot']} keeps {human_size(stream['retained_bytes'])} of the server's log{more}"


RoleName = Annotated[
    str | None,
    typer.Option("--role", metavar="NAME", help="The role that backs up; the default is SOURCE's own user."),
]
Run = Annotated[bool, typer.Option("--run", help="Do it, as SOURCE's user, rather than print it as a script.")]


@source_app.command()
def setup(
    source: Source,
    databases: Databases = None,
    role: RoleName = None,
    per_schema: Annotated[
        bool, typer.Option("--per-schema", help="Rights on each schema, where pg_read_all_data is not wanted.")
    ] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="The REPLICATION right, too, for an exact log position.")
    ] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="What backups of changes need, too: REPLICATION and a publication.")
    ] = False,
    identity_full: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Tables without a key that may get REPLICA IDENTITY FULL: whole old rows in the log."
        ),
    ] = None,
    definitions: Annotated[
        bool,
        typer.Option("--definitions", help="Event triggers that tell the log when definitions change; by a superuser."),
    ] = False,
    new_tables: Annotated[bool, typer.Option("--new-tables", hidden=True)] = False,
    run: Run = False,
    archive: InArchive = None,
    as_json: Json = False,
) -> None:
    """Print, or run, a script that gives a role no more than backups need; it holds only missing parts.

    A role that is not there is created, without a password. What is given is kept in the role's comment.
    """
    if new_tables:
        raise UsageError(
            "--new-tables is no more: its function had a superuser's rights, and owners of schemas could have it run "
            "their code. Leave it out, and back up right after new tables are made: they begin with that backup"
        )
    configured, address = places.database(source, archive)
    names = [name for name, _ in _each(address, databases)]
    streams: dict[str, WantedStream] = {}
    if changes:
        for database, name in _own_streams(source, archive, address, names).items():
            own = configured if database == address.database else None
            tables, exclude = (own.tables, own.exclude) if own else ((), ())
            streams[database] = WantedStream(name, tables, exclude, identity_full or (), definitions)
    else:
        options = {"--identity-full": identity_full, "--definitions": definitions}
        if given := next((option for option, value in options.items() if value), None):
            raise UsageError(f"{given} is for backups of changes: add --changes")
    plan = plan_setup(
        address,
        names,
        role or _user(address),
        per_schema=per_schema,
        replication=replication,
        streams=streams,
    )
    if warning := address.tls.warning():
        plan = replace(plan, notes=(*plan.notes, warning))
    plans = [plan]
    if replication or changes:
        plans += plan_reader(address, names, plan.role, per_schema=per_schema)
    _carry_out(address, plans, run=run, output=Output(as_json=as_json))


@source_app.command()
def remove(
    source: Source,
    databases: Databases = None,
    role: RoleName = None,
    keep_role: Annotated[
        bool, typer.Option("--keep-role", help="Do not drop the role, even where setup has created it.")
    ] = False,
    run: Run = False,
    archive: InArchive = None,
    as_json: Json = False,
) -> None:
    """Print, or run, a script that undoes exactly the changes of setup, and drops the stream of changes.

    With the last of its databases goes the role, if setup has created it. One that owns something is not dropped.
    """
    _, address = places.database(source, archive)
    names = [name for name, _ in _each(address, databases)]
    output = Output(as_json=as_json)
    streams: dict[str, str] = {}
    try:
        streams = left_streams(source, archive, address, names)
    except (HoldfastError, StoreError) as error:
        if archive:
            raise
        output.say(f"its stream is dropped only where setup has made it, since the archive is unknown: {error}")
    plan = plan_remove(address, names, role or _user(address), keep_role=keep_role, streams=streams)
    others = tuple(other_streams(address, names, plan))
    plans = [replace(plan, notes=(*plan.notes, *others))]
    reader = plan_remove(address, names, reader_of(plan.role), keep_role=keep_role)
    if reader.parts:
        plans.append(reader)
    _carry_out(address, plans, run=run, output=output)


def _own_streams(source: str, archive: str | None, address: Address, databases: Sequence[str]) -> dict[str, str]:
    """Return the names of streams that are to be made.

    :raises UsageError: it is not known for which archive.
    """
    if found := stream_names(source, archive, address.database, databases):
        return found
    raise UsageError("say for which archive the changes are: --archive URL")


def _user(address: Address) -> str:
    with connect(address) as session:
        return session.info.user


def _carry_out(address: Address, plans: Sequence[Plan], *, run: bool, output: Output) -> None:
    if run:
        for each in plans:
            run_plan(address, each)
    plan = replace(
        plans[0],
        parts=tuple(part for each in plans for part in each.parts),
        notes=tuple(note for each in plans for note in each.notes),
    )
    value = {
        "role": plan.role,
        "ran": run and bool(plan.parts),
        "changes": [
            {"database": part.database, "why": change.why, "sql": list(change.statements)}
            for part in plan.parts
            for change in part.changes
        ],
        "notes": list(plan.notes),
        "script": script(plan) if plan.parts else "",
    }
    output.result(value, lambda console: _show_plan(console, plan, ran=run))
    for note in plan.notes:
        output.say(note)


def _show_plan(console: Console, plan: Plan, *, ran: bool) -> None:
    if not plan.parts:
        console.print("-- nothing to do", markup=False)
    elif not ran:
        for line in script(plan).split("\n"):
            console.print(line, markup=False)
    else:
        for part in plan.parts:
            for statement in (each for change in part.changes for each in change.statements):
                console.print(f"{part.database}: {statement}", markup=False)
