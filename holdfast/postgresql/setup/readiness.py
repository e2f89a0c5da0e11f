"""Readiness of a database for backups, by its catalog alone: problems, warnings and remedies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.common.words import named
from holdfast.postgresql.catalog.catalog_queries import left_out, read_catalog, read_tables
from holdfast.postgresql.catalog.database_settings import trusted_only
from holdfast.postgresql.connection.reading_role import reading_address, reads_with_replication
from holdfast.postgresql.connection.session import connect, first_column, first_value
from holdfast.postgresql.dump.client_floors import LIBPQ, LIBPQ_REMEDY, libpq_release, why_unsafe
from holdfast.postgresql.dump.programs import below_floor, need_program, version_of
from holdfast.postgresql.logical import ddl_triggers as definitions
from holdfast.postgresql.setup.stream_rights import has_new_tables_trigger
from holdfast.postgresql.snapshot.export import SLOT_WAIT_S, try_sharing, why_not_exact
from holdfast.postgresql.snapshot.obstacles import Obstacle, choice_obstacles, obstacles, unreadable
from holdfast.postgresql.snapshot.snapshot import locked_by_others

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.common.postgresql_tls import TlsSettings
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

NEWEST = 18
"""Major version of the newest server this release was tried with."""

SESSIONS = 3
"""What a backup needs at the least: one session holds the snapshot, two read."""

LOOK_WAIT_S = 5.0
"""How long a look at a database waits for locks on its tables."""


@dataclass(frozen=True)
class Readiness:
    """Findings of a check.

    :param facts: by name, as they go into JSON.
    :param problems: for which a backup would be refused or would fail.
    :param warnings: what one should know; a backup works all the same.
    """

    facts: Mapping[str, Any]
    problems: tuple[Obstacle, ...]
    warnings: tuple[Obstacle, ...]


def choose_databases(session: Connection, globs: Sequence[str]) -> tuple[str, ...]:
    """Return the server's databases with names that match a glob, without templates."""
    names = first_column(
        session, "select datname from pg_catalog.pg_database where datallowconn and not datistemplate order by datname"
    )
    found = tuple(name for name in names if any(fnmatchcase(name, glob) for glob in globs))
    if not found:
        raise UsageError(f"--databases {' '.join(globs)} matches no database; there are: {named(names)}")
    return found


def check_server(address: Address) -> Readiness:
    """Check what a server's databases share: version, role, connections and log."""
    with connect(address) as session:
        role = _role(session)
        no_slot = why_not_exact(session)
        few, not_many = _connections(
            {"the role's connection limit": role["free_of_role"], "max_connections": role["free_of_server"]}
        )
        facts = {
            "server": first_value(session, "show server_version"),
            "major": session.info.server_version // 10000,
            "standby": first_value(session, "select pg_catalog.pg_is_in_recovery()"),
            "wal_level": first_value(session, "show wal_level"),
            "exact_position": not no_slot,
            **role,
        }
        problems = (*_stuck_timeouts(session), *few, *(() if few else _pooler(address)))
        warnings = (
            *_untried(session),
            *superuser(session),
            *_replication(address),
            *_another(role),
            *_approximate(no_slot),
            *(() if no_slot else _slow_slot(session)),
            *_standby(session),
            *_old_snapshots(session),
            *not_many,
            *_expiry(session),
        )
    return Readiness(facts, problems, warnings)


def check_database(address: Address, globs: Sequence[str] = (), exclude: Sequence[str] = ()) -> Readiness:
    """Check one database: readable objects, contents and omissions of a backup.

    :param globs: tables to back up, as in archives.yaml; none: all.
    """
    with connect(reading_address(address)) as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute(f"SET LOCAL lock_timeout = {int(LOOK_WAIT_S * 1000)}")
        try:
            return _look(session, globs, exclude)
        except psycopg.errors.LockNotAvailable as error:
            raise locked_by_others(address, LOOK_WAIT_S) from error


def _look(session: Connection, globs: Sequence[str], exclude: Sequence[str]) -> Readiness:
    problems = list(obstacles(session))
    catalog = read_catalog(session, read_tables(session), values=False)
    standby = bool(first_value(session, "select pg_catalog.pg_is_in_recovery()"))
    chosen = catalog.with_rows()
    try:
        chosen = catalog.with_rows(globs, exclude)
        problems += choice_obstacles(catalog, chosen, standby=standby)
    except UsageError as error:
        problems.append(Obstacle(str(error), "correct it in archives.yaml"))
    unlogged = [table.label for table in chosen if table.persistence == "u"]
    not_included = [*left_out(session), *first_column(session, _HIDDEN_FROM_DUMP)]
    missing = unreadable(session)
    facts = {
        "encoding": catalog.encoding,
        "tables": sum(table != catalog.large_objects for table in chosen),
        "large_objects": sum(group.count for group in catalog.large_object_groups),
        "bytes": sum(table.size for table in chosen),
        "estimated_rows": sum(table.estimated_rows for table in chosen),
        "not_selected": len(catalog.with_rows()) - len(chosen),
        "unusable_schemas": missing.schemas,
        "unreadable": missing.relations,
        "hidden_rows": missing.hidden,
        "unlogged": unlogged,
        "not_included": not_included,
    }
    few, not_many = _connections({"the database's connection limit": first_value(session, _FREE_OF_DATABASE)})
    warnings = (*_triggers(session), *_guarded(session, catalog), *_remarks(unlogged, not_included), *not_many)
    return Readiness(facts, (*problems, *few), warnings)


def _guarded(session: Connection, catalog: Catalog) -> Iterator[Obstacle]:
    settings = catalog.database_settings
    if settings is not None and (guarded := trusted_only(session, settings)):
        yield Obstacle(guarded, "sign or encrypt the archive, or make them by hand after a restore")


def _triggers(session: Connection) -> Iterator[Obstacle]:
    do = "run 'holdfast source setup SOURCE --changes' as a superuser, which"
    if has_new_tables_trigger(session):
        yield Obstacle(
            "the event trigger of --new-tables is there: by its function, owners of schemas can become superuser",
            f"{do} removes it",
        )
    if definitions.trigger_version(session) and not definitions.is_current(session):
        yield Obstacle("the event triggers of --definitions are of an earlier release", f"{do} puts new ones there")


def _remarks(unlogged: Sequence[str], not_included: Sequence[str]) -> Iterator[Obstacle]:
    if not_included:
        yield Obstacle(f"not included: {named(not_included)}", "keep it in another way if it matters")
    if unlogged:
        yield Obstacle(
            f"unlogged tables are kept as they are then: {named(unlogged)}",
            "know that a crash of the server empties them, and that its standbys do not have them",
        )


# Others than superusers PostgreSQL shows neither, and pg_dump writes what it is shown.
_HIDDEN_FROM_DUMP = """
select format('options of the user mapping of %s on server %s: only a superuser sees them', usename, srvname)
from pg_catalog.pg_user_mappings where umoptions is null and current_setting('is_superuser') = 'off'
union all
select format('subscription %s: only a superuser can back it up', subname) from pg_catalog.pg_subscription
where current_setting('is_superuser') = 'off'
  and subdbid = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
order by 1
"""


# Who logs in takes the connections, also by ALTER ROLE … SET role; the rights are those of the role that is set.
# Of other people's sessions everybody sees whose they are and in which database; background workers have no user.
_ROLE = """
select r.rolname as role, r.rolsuper as superuser, r.rolbypassrls as bypassrls, r.rolreplication as replication,
  l.rolname as login,
  case when l.rolconnlimit >= 0 and not l.rolsuper then l.rolconnlimit + 1 -
    (select count(*) from pg_catalog.pg_stat_activity a where a.usesysid = l.oid) end as free_of_role,
  current_setting('max_connections')::int + 1 - case when l.rolsuper then 0 else
      current_setting('superuser_reserved_connections')::int
      + coalesce(current_setting('reserved_connections', true), '0')::int end
    - (select count(*) from pg_catalog.pg_stat_activity a where a.datid is not null and a.usesysid is not null)
    as free_of_server
from pg_catalog.pg_roles r, pg_catalog.pg_roles l where r.rolname = current_user and l.rolname = session_user
"""

_FREE_OF_DATABASE = """
select datconnlimit + 1
  - (select count(*) from pg_catalog.pg_stat_activity a where a.datid = d.oid and a.usesysid is not null)
from pg_catalog.pg_database d where datname = pg_catalog.current_database() and datconnlimit >= 0
  and current_setting('is_superuser') = 'off'
"""


def _role(session: Connection) -> dict[str, Any]:
    cursor = session.execute(_ROLE)
    return dict(zip((column.name for column in cursor.description or ()), cursor.fetchone() or (), strict=False))


def _connections(limits: Mapping[str, int | None]) -> tuple[list[Obstacle], list[Obstacle]]:
    """Return the limits too low for any backup, and those too low for all cores.

    :param limits: how many connections each of them leaves; None is no limit.
    """
    wanted = SESSIONS - 1 + (os.cpu_count() or 1)
    problems, warnings = [], []
    for limit, free in limits.items():
        if free is not None and free < wanted:
            few = f"{limit} leaves {max(free, 0)} connections"
            if free < SESSIONS:
                problems.append(Obstacle(f"{few}, and a backup needs {SESSIONS}", "raise it, or close connections"))
            else:
                warnings.append(
                    Obstacle(
                        f"{few}, and a backup uses two and one for each Spark task, with this machine's cores {wanted}",
                        "raise it, close connections, or use fewer cores (HOLDFAST_SPARK_MASTER=local[2,4])",
                    )
                )
    return problems, warnings


def check_clients(major: int, *, tls: TlsSettings | None = None) -> Readiness:
    """Check this machine's programs and library for backups and restores.

    :param tls: what its address asks of TLS.
    """
    try:
        program = need_program("pg_dump", at_least=major, tls=tls)
    except HoldfastError as error:
        what, _, do = str(error).partition(": ")
        return Readiness({"pg_dump": None, "libpq": str(libpq_release())}, (Obstacle(what, do),), (*_old_libpq(),))
    facts = {"pg_dump": f"{version_of(program)} at {program}", "libpq": str(libpq_release())}
    below = (below_floor("pg_dump", at_least=major, tls=tls), below_floor("pg_restore", at_least=major))
    return Readiness(facts, (), (*(Obstacle(why, do) for why, do in below if why), *_old_libpq()))


def _old_libpq() -> Iterator[Obstacle]:
    if why := why_unsafe(LIBPQ, libpq_release()):
        yield Obstacle(f"{why} (as psycopg uses it)", LIBPQ_REMEDY)


def _stuck_timeouts(session: Connection) -> Iterator[Obstacle]:
    stuck = first_column(
        session,
        "select name from pg_catalog.pg_settings where setting <> '0' and name in ('statement_timeout', "
        "'idle_in_transaction_session_timeout', 'lock_timeout', 'transaction_timeout', 'idle_session_timeout') "
        "order by name",
    )
    if stuck:
        yield Obstacle(
            f"time-outs stay in force although the session has turned them off: {', '.join(stuck)}",
            "connect to the server itself, without a pooler or proxy",
        )


def _pooler(address: Address) -> Iterator[Obstacle]:
    try:
        try_sharing(address)
    except (HoldfastError, psycopg.Error) as error:
        said = " ".join(str(error).split())
        yield Obstacle(
            f"one session cannot read in the snapshot of another ({said})",
            "connect to the server itself, without a pooler, proxy or load balancer",
        )


def superuser(session: Connection) -> Iterator[Obstacle]:
    """Yield a warning of backups by a superuser, whose password is worth more than all backups."""
    if session.info.parameter_status("is_superuser") == "on":
        yield Obstacle(
            f"{session.info.user} is a superuser, and backups need to read only",
            "make a role for them: holdfast source setup … --role backup",
        )


def _replication(address: Address) -> Iterator[Obstacle]:
    what, _, do = reads_with_replication(address).partition(": ")
    if what:
        yield Obstacle(what, do)


def _another(role: Mapping[str, Any]) -> Iterator[Obstacle]:
    if role["login"] != role["role"]:
        yield Obstacle(
            f"{role['login']} becomes {role['role']} as it logs in (ALTER ROLE … SET role): all rights are those of "
            f"{role['role']}",
            f"give {role['role']} what is missing, or alter role {role['login']} reset role",
        )


def _untried(session: Connection) -> Iterator[Obstacle]:
    if (major := session.info.server_version // 10000) > NEWEST:
        yield Obstacle(
            f"this release was tried with PostgreSQL up to {NEWEST}, not with {major}",
            "prove it by a restore before you rely on it",
        )


def _approximate(no_slot: Sequence[Obstacle]) -> Iterator[Obstacle]:
    if no_slot:
        yield Obstacle(
            f"the log position of a backup will be approximate, its rows are exact: "
            f"{'; '.join(each.what for each in no_slot)}",
            f"only if you need the position: {'; '.join(each.do for each in no_slot)}",
        )


_SLOW_SLOT = """
select format('pid %%s of %%s since %%s', pid, usename, xact_start::timestamptz(0)) from pg_catalog.pg_stat_activity
where backend_xid is not null and pid <> pg_catalog.pg_backend_pid()
  and xact_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %(wait)s)
union all
select format('prepared transaction %%s of %%s since %%s', gid, owner, prepared::timestamptz(0))
from pg_catalog.pg_prepared_xacts
order by 1
"""


def _slow_slot(session: Connection) -> Iterator[Obstacle]:
    if found := first_column(session, _SLOW_SLOT, {"wait": SLOT_WAIT_S}):
        yield Obstacle(
            f"long transactions that write would keep the slot waiting: {named(found)}",
            f"end them; else a backup waits {SLOT_WAIT_S:.0f} s, and goes on with an approximate log position",
        )


def _standby(session: Connection) -> Iterator[Obstacle]:
    if not first_value(session, "select pg_catalog.pg_is_in_recovery()"):
        return
    delay = first_value(session, "show max_standby_streaming_delay")
    feedback = first_value(session, "show hot_standby_feedback")
    if delay != "-1":
        yield Obstacle(
            f"the server is a standby and cancels what is in the way of replay for longer than "
            f"max_standby_streaming_delay = {delay} (hot_standby_feedback is {feedback})",
            "set max_standby_streaming_delay (and max_standby_archive_delay) to -1 or to longer than a backup takes, "
            "and hot_standby_feedback = on",
        )


def _old_snapshots(session: Connection) -> Iterator[Obstacle]:
    """Yield an obstacle where PostgreSQL (up to 16) may forget what an old snapshot still needs."""
    threshold = first_value(session, "select current_setting('old_snapshot_threshold', true)")
    if threshold not in (None, "-1"):
        yield Obstacle(
            f"old_snapshot_threshold = {threshold} ends a backup that takes longer", "set it to -1 and restart"
        )


def _expiry(session: Connection) -> Iterator[Obstacle]:
    until = first_value(
        session,
        "select rolvaliduntil::timestamptz(0)::text from pg_catalog.pg_roles where rolname = session_user "
        "and rolvaliduntil < pg_catalog.now() + interval '14 days'",
    )
    if until is not None:
        yield Obstacle(f"the role's password is valid until {until}", "alter role … valid until 'infinity'")
