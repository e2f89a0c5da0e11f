"""State of a stream of changes, compared with an archive.

It shows whether the archive can be continued by the stream, and how near the stream is to being lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.common.lsn import PAGE_HEADER, parse_position
from holdfast.postgresql.connection.session import first_value
from holdfast.postgresql.logical.publication import read_publication

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.logical.publication import Publication

PLUGIN = "pgoutput"

MAX_RETAINED_BYTES = 10 << 30
"""Of the log that a slot may keep before one is warned, where archives.yaml does not say (`max_retained_wal`)."""


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """Present state of a stream.

    :param name: of its slot and its publication.
    :param plugin: the slot's, or what it is instead.
    :param active_pid: of who reads the slot now.
    :param wal_status: reserved, extended, unreserved (about to be given up) or lost.
    :param invalidation_reason: why the server has given the slot up; None where it has not, or tells no reason.
    :param position: up to which changes are said to be archived; decoding begins there.
    :param restart: oldest position of the log that it still needs.
    :param retained_bytes: of the log from there to its end.
    :param safe_wal_size: bytes that may still be written before the server gives the slot up; None: no limit.
    :param catalog_xmin_age: transactions since the oldest one whose catalog rows it still needs.
    :param failover: standbys may keep the slot.
    :param usable: it is a permanent slot of the right plugin and database, and two-phase commit is off.
    :param publication_oid: 0 where there is no publication.
    :param publication_version: changes with every change of its options, also one that was taken back.
    :param publication_problem: why nothing can be read by it.
    :param end: of the server's log.
    :param followed: tables, by oid; each with the oid of the entry of the publication it comes by.
    :param not_followed: tables to be followed that are not, by label, each with the reason; known to `open_stream`.
    """

    name: str
    plugin: str
    database: str
    usable: bool
    active_pid: int | None
    wal_status: str | None
    invalidation_reason: str | None
    position: str
    restart: str | None
    retained_bytes: int
    safe_wal_size: int | None
    catalog_xmin_age: int | None
    failover: bool
    publication_oid: int
    publication_version: str | None
    publication_problem: str
    followed: Mapping[int, int]
    not_followed: Mapping[str, str] = field(default_factory=dict)
    system_identifier: str
    timeline: int
    standby: bool
    end: str

    @property
    def lost(self) -> str:
        """Return why the server has given the slot up; "" if it has not."""
        if self.invalidation_reason:
            return self.invalidation_reason.replace("_", " ")
        return "its log was removed" if self.wal_status == "lost" else ""


# Versions differ in columns: conflicting came with 16, failover, invalidation_reason with 17.
_SLOT = """
select to_jsonb(s), s.active_pid, s.wal_status, s.safe_wal_size, s.confirmed_flush_lsn::text, s.restart_lsn::text,
  coalesce(pg_catalog.pg_wal_lsn_diff(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
    else pg_catalog.pg_current_wal_lsn() end, s.restart_lsn), 0)::int8, pg_catalog.age(s.catalog_xmin)
from pg_catalog.pg_replication_slots s where s.slot_name = %s
"""

# The checkpoint's timeline is an old one until the first checkpoint after a failover.
_SYSTEM = """
select (select system_identifier::text from pg_catalog.pg_control_system()), pg_catalog.pg_is_in_recovery(),
  case when pg_catalog.pg_is_in_recovery() then (select timeline_id from pg_catalog.pg_control_checkpoint())
    else ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int end,
  (case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
    else pg_catalog.pg_current_wal_lsn() end)::text
"""


def look(session: Connection, name: str) -> StreamState | None:
    """Return the present state of a stream; None where its slot is missing."""
    row = session.execute(_SLOT, (name,)).fetchone()
    system = session.execute(_SYSTEM).fetchone()
    if row is None or system is None:
        return None
    slot, active_pid, wal_status, safe_wal_size, confirmed, restart, retained, age = row
    found = read_publication(session, name)
    return StreamState(
        name=name,
        plugin=slot["plugin"] or "no plugin: it is a physical slot",
        database=slot["database"] or "",
        usable=_is_usable(slot, session.info.dbname),
        active_pid=active_pid,
        wal_status=wal_status,
        invalidation_reason=slot.get("invalidation_reason") or ("conflict" if slot.get("conflicting") else None),
        position=confirmed or "0/0",  # of a physical slot, which is not usable
        restart=restart,
        retained_bytes=retained,
        safe_wal_size=safe_wal_size,
        catalog_xmin_age=age,
        failover=bool(slot.get("failover")),
        **_of_publication(found),
        system_identifier=system[0],
        timeline=system[2],
        standby=system[1],
        end=system[3],
    )


def _is_usable(slot: Mapping[str, Any], database: str) -> bool:
    same = slot["plugin"] == PLUGIN and slot["database"] == database
    return same and not slot["temporary"] and not slot["two_phase"]


def _of_publication(found: Publication | None) -> dict[str, Any]:
    return {
        "publication_oid": found.oid if found else 0,
        "publication_version": found.version if found else None,
        "publication_problem": found.problem if found else "",
        "followed": found.followed if found else {},
    }


_NEAR = 0.2
"""Of what a server keeps for a slot, at most: with less left than this part, one is warned."""


@dataclass(frozen=True, kw_only=True)
class ExpectedStream:
    """State of a source's stream in the archive's last block.

    :param position: the archive's end: changes from there on are wanted.
    :param publication_version: None where the archive does not tell.
    :param followed: tables, by oid; each with the oid of the entry of the publication it came by.
    """

    name: str
    position: str
    publication_oid: int
    publication_version: str | None = None
    followed: Mapping[int, int] = field(default_factory=dict)
    system_identifier: str | None = None
    timeline: int | None = None


def system_identifier(session: Connection) -> str:
    """Return the identifier of a server, shared with its standbys."""
    return str(first_value(session, "select system_identifier::text from pg_catalog.pg_control_system()") or "")


def database_oid(session: Connection) -> int:
    """Return the oid of the session's database.

    It differs from that of a later database of the same name.
    """
    query = "select oid::int8 from pg_catalog.pg_database where datname = pg_catalog.current_database()"
    return int(first_value(session, query) or 0)


def why_broken(expected: ExpectedStream, state: StreamState | None, system: str | None = None) -> str:
    """Return the reason that changes cannot be joined to the archive; "" if they can.

    The changes are those from the archive's end on.

    A slot that is behind the archive's end is not broken: a crash came before it was advanced.

    :param system: the server's identifier, as `system_identifier` returned it; None: as expected.
    """
    if state is None and system is not None and expected.system_identifier not in (None, system):
        return (
            f"the server is another one: system {system}, not {expected.system_identifier}, where slot "
            f"{expected.name} keeps the log until holdfast source remove drops it there"
        )
    if state is None:
        return f"slot {expected.name} is gone: somebody dropped it"
    return next(_reasons(expected, state), "")


def _reasons(expected: ExpectedStream, state: StreamState) -> Iterator[str]:
    yield from _other_server(expected, state)
    if not state.usable:
        yield f"slot {state.name} is not ours any more: {state.plugin}, database {state.database or 'none'}"
    if state.lost:
        yield f"the server has given up slot {state.name}: {state.lost}"
    if parse_position(state.position) > parse_position(expected.position):
        yield (
            f"slot {state.name} is at {state.position}, and the archive ends at {expected.position}: somebody "
            "advanced it or made it anew"
        )
    if not state.publication_oid:
        yield f"publication {expected.name} is gone"
    elif state.publication_oid != expected.publication_oid:
        yield f"publication {expected.name} was made anew, and did not exist for some of the changes"
    if state.publication_problem:
        yield state.publication_problem
    if expected.publication_version not in (None, state.publication_version):
        yield f"the options of publication {expected.name} were changed meanwhile"


def _other_server(expected: ExpectedStream, state: StreamState) -> Iterator[str]:
    if expected.system_identifier not in (None, state.system_identifier):
        yield f"the server is another one: system {state.system_identifier}, not {expected.system_identifier}"
    if state.standby:
        yield "the server is a standby now"
    if expected.timeline not in (None, state.timeline):
        # Also a slot that a standby kept: what the archive has of the old timeline's end, the new one may lack.
        yield (
            f"a standby took over (timeline {state.timeline}, before {expected.timeline}): the old server's last "
            "changes may be in the archive, and not here"
        )
    if parse_position(state.end) < parse_position(expected.position) - PAGE_HEADER:
        yield (
            f"the server's log ends at {state.end}, before the archive's end at {expected.position}: it was brought "
            "back to an earlier state"
        )


def lost_tables(expected: ExpectedStream, state: StreamState) -> Mapping[int, str]:
    """Return the tables that may miss changes although the stream is whole.

    They are given by oid, with the reason.
    """
    reasons = {}
    for oid, entry in expected.followed.items():
        now = state.followed.get(oid)
        if now is None:
            reasons[oid] = "it left the publication, or was dropped"
        elif now != entry:
            reasons[oid] = "it left the publication, and came back"
    return reasons


def retention_warning(state: StreamState, limit_bytes: int = MAX_RETAINED_BYTES) -> str:
    """Return a warning about the log that a slot keeps; "" where none is due.

    It comes before the log fills the disk, or before the server gives the slot up.

    :param limit_bytes: `max_retained_wal` of archives.yaml.
    """
    if state.lost:
        return ""
    kept = f"slot {state.name} keeps {state.retained_bytes / 1e9:.2f} GB of the server's log"
    do = "back up changes now, or let holdfast source remove drop it"
    safe = state.safe_wal_size
    if state.wal_status == "unreserved" or (safe is not None and safe < _NEAR * (safe + state.retained_bytes)):
        return f"{kept}, and after {max(safe or 0, 0) / 1e9:.2f} GB more the server gives it up: {do}"
    if state.retained_bytes > limit_bytes:
        return f"{kept}, more than max_retained_wal ({limit_bytes / 1e9:.2f} GB), until the disk is full: {do}"
    return ""
