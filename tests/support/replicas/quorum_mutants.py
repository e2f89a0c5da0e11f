"""The transactions of quorums and of sequential reads without their guards: what explores them must find a fault."""

from __future__ import annotations

from holdfast.replication.log import log, quorum, recovery_claim, sequential
from tests.support.replicas.log_mutants import Edit, Mutant, without
from tests.support.replicas.quorum_explorer import Bounds

_PLAIN = Bounds(backups=1, appends=1)
_FAILING = Bounds(backups=1, appends=1, deadlines=1)
_CHAIN = Bounds(backups=2, appends=2, deadlines=1)
_LOST = Bounds(backups=1, appends=1, losses=1)
_LOST_VOTER = Bounds(replicas=3, backups=1, appends=1, losses=1)
_READ_BEHIND = Bounds(sizes=(1,), backups=1, appends=1, reads=1)
_READ_TWICE = Bounds(backups=1, appends=1, deadlines=1, reads=2)

_DECIDED_ONCE = Edit(quorum, "_decide", ", _Q.state == PENDING", "")
_NOT_FAILED = (
    "[quorum._read(connection, archive, row) for row in connection.execute(quorum._select()).all() "
    "if row[4] != quorum.FAILED]"
)

MUTANTS = (
    without(
        "that votes are of their own epoch", _LOST_VOTER,
        quorum, "_votes", "(row.name, row.epoch) in given", "row.name in {name for name, _ in given}",
    ),
    without("that who is lost does not count", _LOST, quorum, "_votes", "not row.is_lost and ", ""),
    without("that who joins holds the block", _PLAIN, quorum, "vote", "or quorum.block not in blocks", "and False"),
    Mutant(
        "that who joins too late changes nothing", _FAILING,
        (
            Edit(
                quorum, "vote", "in pending(connection, acting.archive):",
                "in [_read(connection, acting.archive, row) for row in connection.execute(_select()).all() "
                "if row[4] != COMMITTED]:",
            ),
            _DECIDED_ONCE,
        ),
    ),
    Mutant(
        "that what has succeeded does not fail", _FAILING,
        (Edit(log, "fail_overdue", "quorum.overdue(connection, archive)", _NOT_FAILED), _DECIDED_ONCE),
    ),
    without(
        "that the source's ends go back", _FAILING,
        quorum, "fail", "put_ends(connection, archive, quorum.source, ends_before(connection, archive, quorum))",
        "pass",
    ),
    without(
        "that its ends go back in replicas, too", _FAILING,
        log, "_take_back", "ends={failing.source: ends}", "ends={}",
    ),
    without("that the block is dropped", _FAILING, log, "_take_back", "remove=(failing.block,)", "remove=()"),
    without(
        "that a failure moves no pointer", _FAILING,
        quorum, "fail", "    put_ends(",
        "    connection.execute(schema.replicas.update().values(pointer=quorum.index + 1))\n    put_ends(",
    ),
    without(
        "one pending quorum of a source", _CHAIN,
        log, "_move_ends", "quorum.check_settled(connection, archive, source)", "pass",
    ),
    without("that a backup begins at the end of its source", _CHAIN, log, "_move_ends", "if ends != expected", "if 0"),
    without(
        "that a recovery has all that succeeded", _LOST_VOTER,
        recovery_claim, "choose", "if chosen.pointer <= succeeded", "if False",
    ),
    without(
        "that only who has all that succeeded is read", _READ_BEHIND,
        sequential, "_check_far_enough", "if place.index >= needed", "if True",
    ),
    without(
        "that the commit counts which was opened", _READ_BEHIND,
        sequential, "_check_far_enough", "if place.index >= needed",
        "if next(row.pointer for row in replicas(connection, state.archive) if row.name == place.replica) > needed",
    ),
    without(
        "that what may be taken back is hidden", _READ_TWICE,
        sequential, "_ask", "q.state != quorum.COMMITTED", "q.index < 0",
    ),
)  # fmt: skip
