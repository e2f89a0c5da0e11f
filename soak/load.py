"""The load on one source: writes its lanes until it is ended, and records each turn.

    python -m soak.load JOURNAL NAME SOURCE SEED LANES PAUSE

The source is reached by libpq's variables (`PGHOST`, `PGPASSWORD` …). A turn is recorded with the server's commit time
and with the moment at which this process knew that it was committed.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import psycopg

from soak.journal import Journal
from soak.lanes import Lane, turns

_AGAIN_S = 0.3


class Load:
    """Writes lanes, each from a thread of its own."""

    def __init__(self, journal: Journal, lanes: list[Lane], pause: float) -> None:
        self._journal = journal
        self._lanes = lanes
        self._pause = pause
        self._stop = threading.Event()

    def run(self) -> None:
        """Write until `stop`."""
        threads = [threading.Thread(target=self._write, args=(lane,)) for lane in self._lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self, *_: object) -> None:
        """End after the turns that are under way."""
        self._stop.set()

    def _write(self, lane: Lane) -> None:
        pending: tuple[int, int] | None = None
        while not self._stop.is_set():
            try:
                with psycopg.connect(autocommit=True) as connection:
                    done = turns(connection)[lane.number]
                    if pending is not None and pending[0] == done:  # its answer was lost
                        self._record(connection, lane, *pending)
                    state = lane.state(done)
                    while not self._stop.is_set():
                        with connection.transaction():
                            for statement, values in lane.step(state):
                                connection.execute(statement, values)
                            pending = (state.turn, _own_transaction(connection))
                        self._record(connection, lane, *pending)
                        self._stop.wait(self._pause)
            except psycopg.Error as error:
                self._journal.write("load away", source=lane.source, said=type(error).__name__)
                self._stop.wait(_AGAIN_S)

    def _record(self, connection: psycopg.Connection, lane: Lane, turn: int, transaction: int) -> None:
        acknowledged = time.time()
        row = connection.execute(
            "select extract(epoch from pg_xact_commit_timestamp(%s::text::xid))::text", (transaction,)
        ).fetchone()
        self._journal.write(
            "turn",
            source=lane.source,
            lane=lane.number,
            turn=turn,
            committed=row[0] if row else None,
            acked=acknowledged,
        )


def _own_transaction(connection: psycopg.Connection) -> int:
    row = connection.execute("select pg_current_xact_id()::xid::text").fetchone()
    return int(row[0]) if row else 0


def main(folder: str, name: str, source: str, seed: str, lanes: str, pause: str) -> None:
    """Run the load."""
    made = [Lane(int(seed), source, number) for number in range(int(lanes))]
    load = Load(Journal(Path(folder), name), made, float(pause))
    signal.signal(signal.SIGTERM, load.stop)
    load.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
