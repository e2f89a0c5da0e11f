"""Backups that need a quorum."""

from __future__ import annotations

from holdfast.replication.log import schema
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.work.quorum_wait import QuorumWait
from tests.support.replicas.replicated import Replicas, nothing


def with_quorum(three: Replicas, name: str, size: int = 2) -> str:
    """Make a backup through a replica that needs a quorum; return its block."""
    archive = three.open(name)
    archive.quorum_request = QuorumRequest(size)
    return archive.add(three.backup(archive.store), check=nothing, fence=None).add[0].id


def acknowledged(three: Replicas, name: str, block: str) -> None:
    """Wait as the command does until a backup is acknowledged."""
    waiting = QuorumWait(three.coordination, three.archive, block, name)
    waiting.check_success(waiting.decided())


def overdue(three: Replicas) -> None:
    """Have the deadlines of all quorums pass."""
    three.coordination.run(lambda c: c.execute(schema.quorums.update().values(deadline=1.0)))
