"""A load of PostgreSQL's own pgbench, and what the server's log says that each of its transactions did."""

from __future__ import annotations

import re
import subprocess
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from tests.support.jobs.command import until

Entry = tuple[int, int, int, int, datetime]
"""A row of pgbench_history: teller, branch, account, delta, time."""

TABLES = {"pgbench_accounts": "aid", "pgbench_tellers": "tid", "pgbench_branches": "bid"}
"""Those that have a balance, each with its key."""

CLIENTS = 4
_RATE = 400
"""Transactions a second at most: so many that backups run among them, and few enough to be read back."""

_VERSION = 18
_SLOT = "ledger"
_INSERTED = re.compile(
    r"tid\[integer\]:(\d+) bid\[integer\]:(\d+) aid\[integer\]:(\d+) delta\[integer\]:(-?\d+) "
    r"mtime\[timestamp without time zone\]:'([^']+)'"
)
_CHANGES = """
select lsn::text, data from pg_logical_slot_get_changes(%s, null, null)
where data like 'COMMIT%%' or data like 'table public.pgbench_history: INSERT%%'
"""


@dataclass(frozen=True)
class State:
    """What the tables hold at a position.

    :param balances: those that are not zero, by table and key.
    """

    balances: dict[str, dict[int, int]]
    history: Counter[Entry]


@dataclass(frozen=True)
class Ledger:
    """All transactions of a load, in the order of their commits, as the plugin test_decoding tells them.

    Nothing of it comes from pgoutput, or from anything of ours.

    :param ends: positions just behind their commit records.
    """

    ends: Sequence[int]
    entries: Sequence[Entry]

    def at(self, position: int, history: int | None = None) -> State:
        """Return what the tables hold once all that committed before a position has, and nothing else.

        :param history: another position for the table of that name.
        """
        balances: dict[str, Counter[int]] = {table: Counter() for table in TABLES}
        for teller, branch, account, delta, _ in self.entries[: bisect_right(self.ends, position)]:
            for table, key in zip(TABLES, (account, teller, branch), strict=True):
                balances[table][key] += delta
        told = self.entries[: bisect_right(self.ends, position if history is None else history)]
        return State(
            {table: {key: sum_ for key, sum_ in found.items() if sum_} for table, found in balances.items()},
            Counter(told),
        )


@dataclass
class Load:
    """pgbench on a database, in a process of its own."""

    address: Address
    process: subprocess.Popen[bytes]

    def go_on(self, transactions: int) -> None:
        """Wait until so many more have been committed."""
        wanted = self._done() + transactions
        until(lambda: self._done() >= wanted, f"{transactions} transactions of pgbench")

    def _done(self) -> int:
        if self.process.poll() is not None:
            raise AssertionError(f"pgbench ended with {self.process.returncode}")
        return count(self.address, "public.pgbench_history")


def prepare(address: Address) -> None:
    """Make pgbench's tables, and begin to keep the log for the ledger."""
    _run(address, "--initialize", "--quiet", "--scale=1")
    with connect(address) as session:
        session.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", (_SLOT,))


@contextmanager
def running(address: Address) -> Iterator[Load]:
    """Run the load while the block does; it is killed in the midst of its work."""
    options = [f"--client={CLIENTS}", "--jobs=2", f"--rate={_RATE}", "--time=600", "--no-vacuum", "--random-seed=6"]
    with (
        tempfile.TemporaryFile() as words,
        subprocess.Popen(
            [_program(), *options, address.url], env=address.environment(), stdout=words, stderr=words
        ) as process,
    ):
        try:
            yield Load(address, process)
        finally:
            process.kill()
    until(lambda: not _sessions(address), "pgbench's sessions to end")


def read_ledger(address: Address) -> Ledger:
    """Return all transactions since `prepare`, and keep the log no longer; to be called once."""
    ends: list[int] = []
    entries: list[Entry] = []
    with connect(address) as session:
        waiting: list[Entry] = []
        for lsn, data in session.execute(_CHANGES, (_SLOT,)):
            if not data.startswith("COMMIT"):
                found = _INSERTED.search(data)
                assert found, data
                numbers = [int(each) for each in found.groups()[:4]]
                waiting.append((*numbers, datetime.fromisoformat(found.group(5))))  # type: ignore[arg-type]
            elif waiting:
                (entry,) = waiting
                waiting.clear()
                ends.append(parse_position(lsn))
                entries.append(entry)
        session.execute("select pg_drop_replication_slot(%s)", (_SLOT,))
    assert ends == sorted(ends)
    return Ledger(ends, entries)


def state_of(address: Address) -> State:
    """Return what the tables of a database hold now."""
    with connect(address) as session:
        balances: dict[str, dict[int, int]] = {
            table: dict(
                session.execute(
                    f"select {key}, {key[0]}balance from public.{table} where {key[0]}balance <> 0".encode()
                ).fetchall()
            )
            for table, key in TABLES.items()
        }
        history = session.execute("select tid, bid, aid, delta, mtime from public.pgbench_history").fetchall()
    return State(balances, Counter(history))


def count(address: Address, table: str) -> int:
    """Return how many rows a table has."""
    with connect(address) as session:
        row = session.execute(f"select count(*) from {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _sessions(address: Address) -> int:
    with connect(address) as session:
        row = session.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgbench'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _program() -> str:
    return str(programs.need_program("pgbench", at_least=_VERSION))


def _run(address: Address, *options: str) -> None:
    done = subprocess.run(
        [_program(), *options, address.url], env=address.environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
