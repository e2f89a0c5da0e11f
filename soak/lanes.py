"""What the sources hold, as a function of a number: the truth that restores are compared with.

Each source is written by a few *lanes*, side by side. A lane has a table of its own, which nobody else writes, and its
transactions are numbered: its *turns*. What a turn does follows from the seed, the lane and the number alone. So what a
table must hold after turn n is computed here, without a database, and a restored database says itself by which turn of
each lane it was made: the turn's number is written in the same transaction.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

IDS = 400
"""A lane's rows have ids below this."""

CHANGES = 6
"""Rows that a turn changes."""

TRUNCATES_EVERY = 397
"""Turns after which a table is emptied."""

NEW_COLUMN_EVERY = 313
"""Turns after which a table gets a column more."""

MOST_COLUMNS = 6

TURNS = "lane_turn"
"""The table with the last turn of each lane."""

_COLUMNS = "id, turn, word, amount, data, at, tags, doc"
_TYPES = ("bigint", "bigint", "text", "numeric", "bytea", "timestamptz", "text[]", "jsonb")


@dataclass(frozen=True)
class Content:
    """What a lane's table holds: how many rows, and a hash of them in the order of their ids."""

    rows: int
    hash: str


@dataclass
class State:
    """What a lane's table holds, by the rule.

    :param written: by id, the turn in which the row was written last.
    :param columns: how many columns it has been given since.
    """

    turn: int = 0
    columns: int = 0
    written: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Lane:
    """One lane of a source."""

    seed: int
    source: str
    number: int

    @property
    def table(self) -> str:
        """Return the name of its table."""
        return f"lane_{self.number}"

    def create(self) -> Iterator[str]:
        """Yield the statements that make its table, and its row in the table of turns."""
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(_COLUMNS.split(", "), _TYPES, strict=True))
        yield f"create table {self.table} ({columns}, primary key (id))"
        yield f"insert into {TURNS} values ({self.number}, 0)"

    def row(self, identity: int, turn: int) -> tuple[str, ...]:
        """Return the row that a turn writes, each value as the text that PostgreSQL shows."""
        drawn = random.Random(f"{self.seed}/{self.source}/{self.number}/{turn}/{identity}")
        word = drawn.choice(("plain", "quo'ted", "back\\slash", "tab\tand\nline", "snow ☃ and 🙂", "", "NULL"))
        data = drawn.randbytes(drawn.randint(0, 40)).hex()
        return (
            str(identity),
            str(turn),
            word * drawn.randint(1, 5),
            f"{drawn.randint(-(10**12), 10**12)}.{drawn.randint(0, 10**6 - 1):06}",
            f"\\x{data}",
            f"2026-0{drawn.randint(1, 9)}-1{drawn.randint(0, 9)} 12:34:56.{drawn.randint(1, 9)}+00",
            f"{{{drawn.randint(0, 99)},a{turn}}}",
            f'{{"of": "{self.source}", "turn": {turn}}}',
        )

    def step(self, state: State) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Bring a state to its next turn, and yield the statements that do the same in the database."""
        state.turn += 1
        turn = state.turn
        if turn % NEW_COLUMN_EVERY == 0 and state.columns < MOST_COLUMNS:
            state.columns += 1
            name = f"more_{state.columns}"
            yield f"alter table {self.table} add column {name} int not null default {state.columns}", ()
        if turn % TRUNCATES_EVERY == 0:
            state.written.clear()
            yield f"truncate {self.table}", ()
        drawn = random.Random(f"{self.seed}/{self.source}/{self.number}/{turn}")
        for identity in sorted(drawn.sample(range(IDS), CHANGES)):
            yield self._change(state, identity, gone=drawn.random() < 0.2)
        yield f"update {TURNS} set turn = %s where lane = %s", (turn, self.number)

    def _change(self, state: State, identity: int, *, gone: bool) -> tuple[str, tuple[object, ...]]:
        there = identity in state.written
        if there and gone:
            del state.written[identity]
            return f"delete from {self.table} where id = %s", (identity,)
        state.written[identity] = state.turn
        values = self.row(identity, state.turn)
        if not there:
            casts = ", ".join(f"%s::{kind}" for kind in _TYPES)
            return f"insert into {self.table} ({_COLUMNS}) values ({casts})", values
        names = _COLUMNS.split(", ")
        changed = ", ".join(f"{name} = %s::{kind}" for name, kind in zip(names[1:], _TYPES[1:], strict=True))
        return f"update {self.table} set {changed} where id = %s", (*values[1:], identity)

    def state(self, turn: int) -> State:
        """Return what the table holds after a turn."""
        state = State()
        while state.turn < turn:
            for _ in self.step(state):
                pass
        return state

    def expected(self, turn: int, columns: int | None = None) -> Content:
        """Return what the table must hold after a turn.

        :param columns: how many it has been given; None: as many as by then.
        """
        state = self.state(turn)
        given = state.columns if columns is None else columns
        more = tuple(str(number) for number in range(1, given + 1))
        return content([(*self.row(identity, state.written[identity]), *more) for identity in sorted(state.written)])

    def found(self, connection: psycopg.Connection) -> Content:
        """Read what the table holds in a database."""
        connection.execute("set timezone to 'UTC'")
        columns = connection.execute(
            "select column_name from information_schema.columns where table_name = %s order by ordinal_position",
            (self.table,),
        ).fetchall()
        names = ", ".join(f"{name}::text" for (name,) in columns)
        return content(connection.execute(f"select {names} from {self.table} order by {self.table}.id").fetchall())


def content(rows: list[tuple[str, ...]]) -> Content:
    """Return how many rows there are, and their hash."""
    hashed = hashlib.sha256()
    for row in rows:
        hashed.update(repr(tuple(row)).encode())
    return Content(len(rows), hashed.hexdigest()[:32])


def turns(connection: psycopg.Connection) -> dict[int, int]:
    """Return the last turn of each lane in a database."""
    return {int(lane): int(turn) for lane, turn in connection.execute(f"select lane, turn from {TURNS}").fetchall()}
