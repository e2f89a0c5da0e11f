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
from holdfast.common.words import counted, human_size
from holdfast.postgresql.connection.reading_role import reader_of
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream_state import MAX_RETAINED_BYTES
from holdfast.postgresql.setup.grants import plan_reader, plan_remove, plan_setup, script
from holdfast.postgresql.setup.grants import run as run_plan
from holdfast.postgresql.setup.readiness import Readiness, check_clients, check_database, check_server, choose_databases
from holdfast.postgresql.setup.stream_readiness import check_stream
from holdfast.postgresql.setup.stream_rights import WantedStream
from holdfast.postgresql.setup.tls_readiness import check_tls, describe
from holdfast.postgresql.snapshot.obstacles import Obstacle
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.config.archives_model import SourceConfig
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.stream_state import ExpectedStream
    from holdfast.postgresql.setup.grants import Plan

source_app = typer.Typer(
    name="source",
    help="Check that a database is ready for backups, and set it up. Works with Airflow down.",
    no_args_is_help=True,
)

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A name in archives.yaml, or postgresql://user@host:port/database.")
]
InArchive = Annotated[
    str | None,
    typer.Option("--archive", metavar="URL", help="The archive of the source, if several have one of this name."),
]
Databases = Annotated[
    list[str] | None,
    typer.Option("--databases", metavar="GLOB", help="These databases of SOURCE's server, instead of that one."),
]


@dataclass(frozen=True)
class _Line:
    """A problem or a warning as JSON has it; `database` is None for the whole server."""

    database: str | None
    what: str
    do: str


@source_app.command()
def check(
    source: Source,
    databases: Databases = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Also what incremental backups need, and the state of their stream.")
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
    checked = {name: _check_database(at, configured, address) for name, at in _chosen(address, databases)}
    if changes:
        names = stream_names(source, archive, address.database, checked)
        own, expected = address.database, expected_in(source, archive, names.get(address.database))
        checked = {
            name: _with_stream(
                address.at_database(name),
                readiness,
                names.get(name),
                configured if name == own else None,
                expected if name == own else None,
            )
            for name, readiness in checked.items()
        }
        if names.get(own):
            checked[own] = replace(checked[own], warnings=(*checked[own].warnings, *_waiting(source, archive)))
    every = [*((None, part) for part in shared), *checked.items()]
    problems = [_Line(name, problem.what, problem.do) for name, part in every for problem in part.problems]
    warnings = [_Line(name, warning.what, warning.do) for name, part in every for warning in part.warnings]
    facts = {name: fact for part in shared for name, fact in part.facts.items()}
    facts["databases"] = {name: part.facts for name, part in checked.items()}
    value = {
        "ok": not problems,
        "problems": [asdict(line) for line in problems],
        "warnings": [asdict(line) for line in warnings],
        "facts": facts,
    }
    output.result(value, _check_lines(address, facts, problems, warnings))
    if problems:
        output.say("holdfast: a backup would be refused or fail: fix the lines marked FAIL")
        raise typer.Exit(RefusedError.exit_code)


def _waiting(source: str, archive: str | None) -> Iterator[Obstacle]:
    """Yield the tables whose newest rows are in no backup, since they wait to start over."""
    for each in waiting_in(source, archive):
        do = "fix that, and back up again" if each.act else "the next backup tries again"
        yield Obstacle(f"{each.table} waits since {iso(each.since)} to start over: {each.reason}", do)


def _chosen(address: Address, globs: Sequence[str] | None) -> Iterator[tuple[str, Address]]:
    if not globs:
        yield address.database, address
        return
    with connect(address) as session:
        names = choose_databases(session, globs)
    for name in names:
        yield name, address.at_database(name)


def _check_database(at: Address, configured: SourceConfig, named: Address) -> Readiness:
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
    readiness: Readiness,
    name: str | None,
    configured: SourceConfig | None,
    expected: ExpectedStream | None,
) -> Readiness:
    if not readiness.facts:  # it could not be examined
        return readiness
    globs, exclude = (configured.tables, configured.exclude) if configured else ((), ())
    limit = parse_size(configured.max_retained_wal) if configured else MAX_RETAINED_BYTES
    stream = check_stream(at, name, globs, exclude, expected=expected, limit_bytes=limit)
    facts = {**readiness.facts, "changes": stream.facts}
    return Readiness(facts, readiness.problems, (*readiness.warnings, *stream.warnings))


def _check_lines(
    address: Address, facts: Mapping[str, Any], problems: list[_Line], warnings: list[_Line]
) -> Iterator[str]:
    kind = "a standby, " if facts["standby"] else ""
    yield f"PostgreSQL {facts['server']} at {address.url}: {kind}role {facts['role']}, wal_level {facts['wal_level']}"
    yield f"TLS: {describe(facts['tls'])}"
    several = len(facts["databases"]) > 1
    for name, database in facts["databases"].items():
        refused = any(line.database in (None, name) for line in problems)
        tables = (
            f"{counted(database['tables'], 'table')}, {human_size(database['bytes'])}" if database else "not checked"
        )
        yield f"{'FAIL' if refused else 'ok  '} {name}: {tables}{_slot_words(database)}"
    for word, lines in (("FAIL", problems), ("warn", warnings)):
        for line in lines:
            yield f"{word} {f'{line.database}: ' if several and line.database else ''}{line.what}"
            yield f"     {line.do}"


def _slot_words(facts: Mapping[str, Any]) -> str:
    stream = (facts.get("changes") or {}).get("stream")
    if stream is None:
        return ""
    safe = stream["safe_wal_size"]
    more = "" if safe is None else f"; after {human_size(safe)} more the server drops it"
    return f"; slot {stream['slot']} keeps {human_size(stream['retained_bytes'])} of the server's log{more}"


RoleName = Annotated[
    str | None, typer.Option("--role", metavar="NAME", help="The role that backs up; the default is SOURCE's own user.")
]
Run = Annotated[bool, typer.Option("--run", help="Run the script as SOURCE's user instead of printing it.")]


@source_app.command()
def setup(
    source: Source,
    databases: Databases = None,
    role: RoleName = None,
    per_schema: Annotated[
        bool, typer.Option("--per-schema", help="Grant rights on each schema instead of pg_read_all_data.")
    ] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Also grant REPLICATION, for an exact log position.")
    ] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="Also what incremental backups need: REPLICATION and a publication.")
    ] = False,
    identity_full: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Tables without a key that may get REPLICA IDENTITY FULL: whole old rows in the log."
        ),
    ] = None,
    definitions: Annotated[
        bool,
        typer.Option(
            "--definitions", help="Event triggers that record in the log when definitions change; needs a superuser."
        ),
    ] = False,
    new_tables: Annotated[bool, typer.Option("--new-tables", hidden=True)] = False,
    run: Run = False,
    archive: InArchive = None,
    as_json: Json = False,
) -> None:
    """Print, or run, a script that gives a role no more than backups need; it holds only missing parts.

    A missing role is created, without a password. The role's comment records what it was given.
    """
    if new_tables:
        raise UsageError(
            "--new-tables was removed: owners of schemas could make its function run their code as a superuser. Leave "
            "it out, and back up right after new tables are made: they begin with that backup"
        )
    configured, address = places.database(source, archive)
    names = [name for name, _ in _chosen(address, databases)]
    streams: dict[str, WantedStream] = {}
    if changes:
        for database, name in _own_streams(source, archive, address, names).items():
            own = configured if database == address.database else None
            tables, exclude = (own.tables, own.exclude) if own else ((), ())
            streams[database] = WantedStream(name, tables, exclude, identity_full or (), definitions)
    else:
        options = {"--identity-full": identity_full, "--definitions": definitions}
        if given := next((option for option, value in options.items() if value), None):
            raise UsageError(f"{given} is for incremental backups: add --changes")
    plan = plan_setup(
        address, names, role or _user(address), per_schema=per_schema, replication=replication, streams=streams
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

    With the last of its databases, a role that setup has created is dropped, unless it owns something.
    """
    _, address = places.database(source, archive)
    names = [name for name, _ in _chosen(address, databases)]
    output = Output(as_json=as_json)
    streams: dict[str, str] = {}
    try:
        streams = left_streams(source, archive, address, names)
    except (HoldfastError, StoreError) as error:
        if archive:
            raise
        output.say(f"the archive is unknown, so its stream is dropped only where setup made it: {error}")
    plan = plan_remove(address, names, role or _user(address), keep_role=keep_role, streams=streams)
    others = tuple(other_streams(address, names, plan))
    plans = [replace(plan, notes=(*plan.notes, *others))]
    reader = plan_remove(address, names, reader_of(plan.role), keep_role=keep_role)
    if reader.parts:
        plans.append(reader)
    _carry_out(address, plans, run=run, output=output)


def _own_streams(source: str, archive: str | None, address: Address, databases: Sequence[str]) -> dict[str, str]:
    if names := stream_names(source, archive, address.database, databases):
        return names
    raise UsageError("--changes needs the archive that the changes go to: --archive URL")


def _user(address: Address) -> str:
    with connect(address) as session:
        return session.info.user


def _carry_out(address: Address, plans: Sequence[Plan], *, run: bool, output: Output) -> None:
    if run:
        for plan in plans:
            run_plan(address, plan)
    plan = replace(
        plans[0],
        parts=tuple(part for plan in plans for part in plan.parts),
        notes=tuple(note for plan in plans for note in plan.notes),
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
    output.result(value, _plan_lines(plan, ran=run))
    for note in plan.notes:
        output.say(note)


def _plan_lines(plan: Plan, *, ran: bool) -> Iterator[str]:
    if not plan.parts:
        yield "-- nothing to do"
    elif not ran:
        yield from script(plan).split("\n")
    else:
        for part in plan.parts:
            for change in part.changes:
                yield from (f"{part.database}: {statement}" for statement in change.statements)
