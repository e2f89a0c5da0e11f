"""What happens to a database: transactions drawn at random, of changes of rows and of definitions."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from hypothesis import strategies as st

from holdfast.operations.marks import set_mark
from holdfast.postgresql.connection.sql import ident, literal
from sparkjobs.driver import log_windows
from sparkjobs.tasks import changes
from tests.support.following.followed import Followed, known
from tests.support.generator.comings import THEMES
from tests.support.generator.definitions import DEFINITIONS, create, new
from tests.support.generator.models import INT, KEYS, MOOD, Chance, Column, Draw, Model, Pair, Steps, Table
from tests.support.generator.rows import fill, rows, written

_SMALL = {"WINDOW_BYTES": 6000}
_FEW = {"MOST_CHANGES": 20}

WINDOWS: tuple[dict[str, int], ...] = ({}, _SMALL, _FEW, _SMALL | _FEW, {"MOST_CHANGES": 1, "WINDOWS_AT_ONCE": 1})
"""What a backup reads at a time: all, or windows that are small or have few changes, or one for each transaction.

Small ones are two at a time, of which the second is in vain where the first one has too many changes.
They grow where others' databases fill the log, as autovacuum does at any time: thousands of windows took an hour.
"""

_FOLLOWED = """
select c.oid::int8 from pg_class c where c.relkind = 'r' and case c.relreplident
  when 'd' then exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
  when 'i' then exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident)
  when 'f' then not exists (select from pg_attribute a where a.attrelid = c.oid and a.attgenerated <> '')
end and c.oid >= 16384
"""
"""Tables whose changes can be followed."""


@contextmanager
def _reading(windows: dict[str, int], *, packs: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in windows.items():
            patch.setattr(log_windows, name, value)
        if packs:
            patch.setattr(changes, "PACKED_FROM", 0)
        yield


class History:
    """Runs drawn transactions in a database that is followed."""

    def __init__(self, followed: Followed, draw: Draw) -> None:
        self.followed = followed
        self.chance = Chance(draw, itertools.count(1))
        self.model = Model(Pair("pair", [Column("a", INT), Column("m", MOOD)], is_table=self.chance.often()))
        self.script: list[str] = []
        self._settled = False
        self._followed: set[int] = set()
        self._exact: list[set[int]] = []
        self.marks: dict[int, str] = {}
        """Names of marks that know the schema, by the number of the moment that each stands for."""

    def begin(self) -> None:
        """Make the types, and the first tables."""
        labels = ", ".join(map(literal, self.model.labels))
        pair = f"create {'table pair' if self.model.pair.is_table else 'type pair as'} (a int, m mood)"
        self.followed.run(
            "create domain large as text", f"create type mood as enum ({labels})", pair, "create sequence others"
        )
        for how in self.chance.draw(st.lists(st.sampled_from((*KEYS, "full and key")), min_size=2, max_size=3)):
            self._transaction([partial(create, self.chance, self.model, how)], commit=True)
            self._transaction([self._full, self._rows], commit=True)

    def transaction(self) -> None:
        """Run a transaction of a few changes, now and then of definitions; or several, as below."""
        what = self.chance.draw(st.integers(0, 11))
        if what >= 5:
            self._settled = False
        if what >= 8 and self.model.tables:
            self._story()
        elif what == 7 and self.model.tables:
            table = self._table()
            self._alone(f"vacuum full {ident(table.name)}")
            table.refile(rows=True)
        elif what == 4 and self.chance.draw(st.booleans()):
            self._alone(self._message())
        else:
            self._transaction(self._some(self._definition if what >= 5 else self._rows), commit=self._commits())

    def back_up(self, kind: str = "changes") -> None:
        """Take a backup, which reads the log by windows of some size, and packs small files or does not."""
        windows, packs = self.chance.one(WINDOWS), self.chance.draw(st.booleans())
        self.script.append(f"-- a backup: {kind} {windows} packs: {packs}")
        with _reading(windows, packs=packs):
            self.followed.back_up(kind)
        self._cut()

    def mark(self) -> None:
        """Set a mark that knows the schema: what comes back exactly up to it does so, whatever becomes of it next."""
        name = f"mark {len(self.marks)}"
        done = set_mark(self.followed.archive(), [self.followed.store], self.followed.address, "shop", name)
        assert done.why_unknown == ""
        self.script.append(f"-- {name} at {done.position}")
        # What the server itself writes may come right behind it.
        self.followed.moments.append((done.position, known(self.followed.session)))
        self.marks[len(self.followed.moments) - 1] = name
        self._followed = self._clean() & self._followed
        self._exact += [self._followed] * (len(self.followed.moments) - len(self._exact))
        self.model.cut()

    def exact(self, number: int) -> set[int]:
        """Return the oids of the tables that must come back exactly, at a moment by its number."""
        return self._exact[number]

    def _cut(self) -> None:
        """Note which tables must come back exactly since the last backup, and which can from this one on."""
        self._exact += [self._clean() & self._followed] * (len(self.followed.moments) - len(self._exact))
        self._followed = {oid for (oid,) in self.followed.session.execute(_FOLLOWED)}
        self.model.cut()
        self._settled = True

    def _clean(self) -> set[int]:
        query = "select to_regclass(quote_ident(name))::oid::int8 from unnest(%s::text[]) name"
        return {oid for (oid,) in self.followed.session.execute(query, (self.model.clean(),))}

    def _alone(self, statement: str) -> None:
        self.script.append(statement)
        self.followed.session.execute(statement.encode())
        self._note()

    def _message(self) -> str:
        """Return what writes a message into the log: by itself, whatever becomes of its transaction, or as a part."""
        transactional, size = self.chance.draw(st.booleans()), self.chance.one((1, 300, 9000))
        return f"select pg_logical_emit_message({str(transactional).lower()}, 'app', repeat('x', {size}))"

    def _before_the_end(self, begun: int) -> None:
        """Write a message, or take a backup, in a transaction that has not ended.

        Where tables need a snapshot, or are locked, a backup would wait for the transaction.

        :param begun: number of its first line.
        """
        what = self.chance.draw(st.integers(0, 7))
        if what < 3:
            self.script.append(self._message())
            self.followed.session.execute(self.script[-1].encode())
        is_locked = any(line.startswith("truncate") for line in self.script[begun:])
        if what < 2 and self._settled and not is_locked:
            self.back_up()

    def _commits(self) -> bool:
        return self.chance.draw(st.integers(0, 9)) > 0

    def _transaction(self, parts: Sequence[Callable[[], Steps]], *, commit: bool) -> None:
        session = self.followed.session
        before = copy.deepcopy(self.model)
        begun = len(self.script)
        self.script.append("begin")
        session.execute("begin")
        for part in parts:
            self._part(part)
        self._before_the_end(begun)
        self.script.append("commit" if commit else "rollback")
        session.execute(self.script[-1].encode())
        if not commit:
            self.model = before
        self._note()

    def _note(self) -> None:
        self.script.append(f"-- at {self.followed.note()}")

    def _part(self, part: Callable[[], Steps]) -> None:
        """Run a part of a transaction: all of it, or nothing."""
        session, saved = self.followed.session, copy.deepcopy(self.model)
        session.execute("savepoint part")
        try:
            for statement in part():
                self.script.append(statement)
                session.execute(statement.encode())
            session.execute("release part")
        except psycopg.Error as error:
            self.script.append(f"rollback to part -- {error}")
            session.execute("rollback to part")
            self.model = saved

    def _story(self) -> None:
        """Run a few transactions in which things of one kind come, go and come again, in one table with its rows."""
        theme, name = self.chance.one(THEMES), self._table().name

        def chapter() -> Steps:
            yield from theme(self.chance, self.model, self.model.tables[name])

        def its_rows() -> Steps:
            yield from written(self.chance, self.model, self.model.tables[name])

        for _ in range(self.chance.draw(st.integers(3, 5))):
            first = int(self.chance.often())
            self._transaction([its_rows, chapter, its_rows][first:], commit=self._commits())

    def _some(self, part: Callable[[], Steps]) -> Sequence[Callable[[], Steps]]:
        return [part] * self.chance.draw(st.integers(1, 3))

    def _table(self) -> Table:
        return self.chance.one(list(self.model.tables.values()))

    def _full(self) -> Steps:
        """Give the newest table rows."""
        for table in list(self.model.tables.values())[-1:]:
            yield fill(self.chance, self.model, table)

    def _rows(self) -> Steps:
        if self.model.tables:
            yield from rows(self.chance, self.model, self._table())

    def _definition(self) -> Steps:
        """Yield statements that change a definition, and rows by it."""
        if not self.model.tables:
            yield from new(self.chance, self.model)
            return
        yield from self.chance.one(DEFINITIONS)(self.chance, self.model, self._table())
        yield from self._rows()
