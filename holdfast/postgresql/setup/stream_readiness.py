"""Readiness of a database for incremental backups, and the state of its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.errors import RefusedError, UsageError
from holdfast.common.words import named
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.session import connect, session_role
from holdfast.postgresql.logical.publication import plan_publication
from holdfast.postgresql.logical.stream_state import look, retention_warning, system_identifier, why_broken
from holdfast.postgresql.setup.readiness import Readiness
from holdfast.postgresql.snapshot.export import why_no_decoding, why_no_slot
from holdfast.postgresql.snapshot.obstacles import Obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.logical.publication import PublicationPlan
    from holdfast.postgresql.logical.stream_state import ExpectedStream, StreamState

_ANEW = "the next backup of changes begins anew, with a full one"

_UNNAMED = "holdfast_"
"""The name of no publication, where it is not known whose changes are meant."""


def check_stream(
    address: Address,
    name: str | None,
    globs: Sequence[str],
    exclude: Sequence[str],
    *,
    expected: ExpectedStream | None = None,
    limit_bytes: int,
) -> Readiness:
    """Check a database for incremental backups, and its stream if the name is known.

    :param expected: what it must be for its changes to be joined to an archive; None where that is not known.
    :param limit_bytes: of the log that the slot may keep without a warning.
    """
    with connect(address) as session:
        state = look(session, name) if name else None
        warnings = [
            Obstacle(f"changes cannot be backed up: {each.what}", each.do)
            for each in (why_no_slot(session) if state is None else why_no_decoding(session))
        ]
        facts: dict[str, Any] = {"stream": _facts(state) if state else None, "not_followed": {}}
        try:
            tables = read_catalog(session, read_tables(session), values=False).with_rows(globs, exclude)
            plan = plan_publication(session, name or _UNNAMED, tables)
            facts["not_followed"] = dict(plan.not_followed)
            warnings += _of_tables(plan, session_role(session))
        except RefusedError as error:
            what, _, do = str(error).partition(": ")
            warnings.append(Obstacle(what, do))
        except UsageError:
            pass  # the look at the database reports it
        warnings += _of_settings(session)
        if expected and (why := why_broken(expected, state, system_identifier(session))):
            warnings.append(Obstacle(f"no changes can be joined to the archive: {why}", _ANEW))
        elif state:
            warnings += _of_state(state, limit_bytes)
    return Readiness(facts, (), tuple(warnings))


def _facts(state: StreamState) -> dict[str, Any]:
    return {
        "slot": state.name,
        "position": state.position,
        "retained_bytes": state.retained_bytes,
        "safe_wal_size": state.safe_wal_size,
        "wal_status": state.wal_status,
        "lost": state.lost,
        "active_pid": state.active_pid,
        "catalog_xmin_age": state.catalog_xmin_age,
        "failover": state.failover,
        "followed": len(state.followed),
    }


def _of_tables(plan: PublicationPlan, user: str) -> Iterator[Obstacle]:
    reasons: dict[str, list[str]] = {}
    for label, reason in plan.not_followed.items():
        reasons.setdefault(reason.partition(":")[0].removeprefix("it has "), []).append(label)
    for reason, labels in reasons.items():
        yield Obstacle(
            f"only in full backups, not followed ({reason}): {named(labels)}",
            "give each a key, or let setup --changes --identity-full GLOB keep their whole old rows in the log",
        )
    foreign = [each.label for each in plan.missing if not (plan.owned and each.owned)]
    if foreign or (plan.surplus and not plan.owned):
        yield Obstacle(
            f"{user} may not publish {named(foreign) or named([relation.label for relation in plan.surplus])}",
            "let holdfast source setup --changes do it, as the tables' owner",
        )


def _of_settings(session: Connection) -> Iterator[Obstacle]:
    row = session.execute(
        "select current_setting('max_slot_wal_keep_size'), current_setting('idle_replication_slot_timeout', true)"
    ).fetchone()
    kept, idle = row or ("-1", None)
    if kept == "-1":
        yield Obstacle(
            "max_slot_wal_keep_size is -1: a stream that nobody reads keeps the log until the disk is full",
            "set it to what the disk bears; a stream that needs more is lost, and begins again with a full backup",
        )
    if idle not in (None, "0"):
        yield Obstacle(
            f"idle_replication_slot_timeout = {idle}: a stream that is not read for so long is lost",
            "back up changes more often than that, or set it to 0",
        )


def _of_state(state: StreamState, limit_bytes: int) -> Iterator[Obstacle]:
    if state.lost:
        yield Obstacle(f"the server has given up slot {state.name}: {state.lost}", _ANEW)
    if not state.publication_oid:
        yield Obstacle(f"publication {state.name} is gone", _ANEW)
    what, _, do = retention_warning(state, limit_bytes).rpartition(": ")
    if what:
        yield Obstacle(what, do)
