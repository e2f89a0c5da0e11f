"""Backups whose quorum is as a test wants it."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.replication import schema
from tests.support.replicated import Replicas


def wait_for_quorum(replicas: Replicas, index: int, *, state: str = "pending") -> None:
    """Let the block that an entry adds wait for a quorum, or have it decided."""
    b, q = schema.blocks.c, schema.quorums.c

    def put(c: Connection) -> None:
        c.execute(schema.quorums.delete().where(q.index == index))
        row = {
            "archive": replicas.archive,
            "index": index,
            "block": c.execute(schema.blocks.select().where(b.index == index)).one().block,
            "source": "shop_db",
            "size": 2,
            "state": state,
            "deadline": 2.0**40,
            "end_before": "",
            "stream_before": "",
            "dropped_by": 0,
        }
        c.execute(schema.quorums.insert(), row)

    replicas.coordination.run(put)
