"""Trigger that waits for the quorum of a backup."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError, OutcomeUnknownError, UsageError
from holdfast_airflow.triggers.pauses import SettledTrigger, event, next_pause
from locking.store import StoreDenied, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

POLL_S = 10.0


class QuorumTrigger(SettledTrigger):
    """Trigger that waits until the quorum of a block is decided, or that cannot be found out.

    The syncs of the other replicas bring it about; where its deadline is over, this has it fail. It holds no lock.

    :param url: of the replica that the backup was made through.
    :param store: address of the coordination store; None for what the environment says.
    :param key: address of the key that opens the archive; None where it needs none.
    :param until: ISO 8601 with offset: then it gives up, if the store does not answer.
    :param replicas: URLs of the archive's replicas in archives.yaml, by name: they are asked, too.
    """

    stored = ("url", "store", "key", "block", "until", "replicas", "poll_s")

    def __init__(
        self,
        *,
        url: str,
        store: str | None,
        key: str | None,
        block: str,
        until: str,
        replicas: Mapping[str, str] | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.url = url
        self.store = store
        self.key = key
        self.block = block
        self.until = until
        self.replicas = dict(replicas or {})
        self.poll_s = poll_s

    async def wait(self) -> dict[str, str]:
        began = time.monotonic()
        while True:
            try:
                pending = await asyncio.to_thread(self._look)
            except (StoreDenied, UsageError, OutcomeUnknownError) as error:
                return event("failed", str(error))
            except (StoreError, HoldfastError) as error:
                pending = f"its quorum could not be read: {error}"
            if not pending:
                return event("decided")
            if datetime.now(UTC) >= datetime.fromisoformat(self.until):
                return event("expired", f"{pending}. 'holdfast points' shows whether the backup counts")
            self.log.info("still waiting: %s", pending)
            await asyncio.sleep(next_pause(time.monotonic() - began, self.poll_s))

    def _look(self) -> str:
        """Return a sentence on a pending quorum. An empty string where it is decided."""
        from holdfast.replication.log.settings import CoordinationAddress
        from holdfast.replication.work.replica_backup import pending_quorum
        from holdfast.storage import open_store

        address = CoordinationAddress.resolve(self.store, replicas=self.replicas)
        return pending_quorum(open_store(self.url, self.key), self.block, address=address)
