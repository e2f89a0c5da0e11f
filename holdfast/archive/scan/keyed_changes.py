"""Changes of a keyed table that count in the end, and where the values are that these do not hold.

Only keys, the order and the kind of changes are looked at here. A row's *life* begins where it is inserted (or in the
snapshot) and ends where it is deleted; one that was moved to another key goes on under that, which matters where it
took along values that the log does not repeat. A life is named by the order of its first change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.archive.scan.change_files import ORDER_SQL, FileRows, Files, Shaper, last_truncation, within
from holdfast.archive.scan.projection import name_of, sql_type
from holdfast.common.errors import MissingRowsError
from holdfast.common.field_ids import LSN, OP, SEQ, UNCHANGED, field_id, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from holdfast.archive.scan.table_history import TableHistory

DELETE: Final = 0
INSERT: Final = 1
UPDATE: Final = 2
PARTIAL: Final = 2
"""Added to the code of a change that does not hold all of its row."""
_INSERTS: Final = f"({INSERT}, {INSERT + PARTIAL})"


class KeyedChanges:
    """Changes of a keyed table, reduced to those that count.

    :param emptied: the order of the last change that emptied the table; what was before counts no more.
    """

    def __init__(self, connection: DuckDBPyConnection, history: TableHistory) -> None:
        self._sql = connection
        self._history = history
        self._key = history.fields(history.key)
        self._names = [name_of(field) for field in self._key]
        self._k = ", ".join(self._names)
        self.emptied: int | None = None

    def load(self, changes: Files) -> None:
        columns = ", ".join(f"{name_of(field)} {sql_type(field.type)}" for field in self._key)
        self._sql.execute(f"create table events ({columns}, o hugeint, code tinyint, u integer[], pos bigint)")
        shaper = Shaper(self._key, {})
        for part in changes.read():
            chosen = within(part, self._history.since, self._history.upto)
            emptied = last_truncation(part, chosen)
            self.emptied = max((each for each in (self.emptied, emptied) if each is not None), default=None)
            if chosen.true_count:
                self._insert(part, shaper, chosen)
        if self.emptied is not None:
            self._sql.execute("delete from events where o <= ?", [self.emptied])

    def _insert(self, part: FileRows, shaper: Shaper, chosen: pa.Array) -> None:
        key = shaper.apply(part.batch)
        names = [*self._names, "lsn", "seq", "op", "unchanged", "pos"]
        extra = [part.column(each) for each in (LSN, SEQ, OP, UNCHANGED)]
        incoming = pa.RecordBatch.from_arrays([*key.columns, *extra, part.places()], names=names).filter(chosen)
        numbers = sorted({number_of(field_id(field)) for field in self._history.wanted})
        self._sql.register("incoming", pa.table(incoming))
        self._sql.execute(
            f"insert into events select {self._k}, {ORDER_SQL}, case op when 'D' then {DELETE} when 'I' then {INSERT} "
            f"else {UPDATE} end + case when len(u) > 0 then {PARTIAL} else 0 end, u, pos "
            f"from (select *, list_intersect(unchanged, {numbers}) as u from incoming) where op <> 'T'"
        )
        self._sql.unregister("incoming")

    def settle(self) -> None:
        """Find the last change of every key: table `picks` gets the places of rows to give out."""
        self._sql.execute(
            f"create table net as select {self._k}, max(o) as o, arg_max(code, o) as code, arg_max(pos, o) as pos, "
            f"arg_min(code, o) as first from events group by {self._k}"
        )
        self._sql.execute("create table change_pieces (source bigint, pos bigint, number integer)")
        self._sql.execute("create table base_pieces (source bigint, pos bigint, number integer)")
        self._sql.execute("create table lacking (pos bigint, u integer[], same boolean)")
        if self._count(f"net where code > {UPDATE}"):
            self._complete()
        self._sql.execute(
            "create table picks as select n.pos, case when l.same then 'U' else 'I' end as op, "
            "case when l.same then l.u end as u from net n left join lacking l on l.pos = n.pos "
            f"where n.code <> {DELETE} order by n.pos"
        )

    def deleted(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the keys of the snapshot that are gone."""
        if self.emptied is None:
            gone = f"select {self._k} from net where code = {DELETE} and first not in {_INSERTS}"
            for batch in self._sql.sql(gone).to_arrow_reader(rows):
                yield pa.RecordBatch.from_arrays(
                    [batch.column(index).cast(field.type) for index, field in enumerate(self._key)], schema=self._key
                )

    def _count(self, what: str) -> int:
        return int(self._sql.execute(f"select count(*) from {what}").fetchall()[0][0])

    def _complete(self) -> None:
        self._sql.execute(
            f"create table lives as select *, coalesce(max(case when code in {_INSERTS} then o end) over w, "
            f"min(o) over w) as life from events window w as (partition by {self._k} order by o)"
        )
        self._follow_moves()
        self._sql.execute(
            "create table persons as select e.*, coalesce(m.root, e.life) as root "
            "from lives e left join moved m on m.life = e.life"
        )
        self._sql.execute(
            f"create table partial as select p.* from net n join persons p on p.o = n.o where n.code > {UPDATE}"
        )
        self._sql.execute(
            "create table pieces as select w.pos, w.number, "
            "arg_max(e.pos, e.o) filter (not coalesce(list_contains(e.u, w.number), false)) as source "
            "from (select pos, root, unnest(u) as number from partial) w "
            f"join persons e on e.root = w.root where e.code <> {DELETE} group by w.pos, w.number"
        )
        self._sql.execute(
            "insert into change_pieces select source, pos, number from pieces where source is not null order by source"
        )
        self._find_origins()
        for name in ("lives", "persons", "moved", "pieces", "partial"):
            self._sql.execute(f"drop table {name}")

    def _follow_moves(self) -> None:
        """Create table `moved`: each life that took values along, with the one it began as.

        Each step doubles the number of moves that are behind a row, so that any number needs few.
        """
        self._sql.execute(
            "create table moved as select e.life, d.life as root from lives e "
            f"left join lives d on d.o = e.o - 1 and d.code = {DELETE} where e.code = {INSERT + PARTIAL}"
        )
        if self._count("moved where root is null"):
            raise self._damaged("a row was moved to another key, and what it was before is not there")
        while self._count("moved m join moved p on p.life = m.root"):
            self._sql.execute(
                "create or replace table moved as select m.life, coalesce(p.root, m.root) as root "
                "from moved m left join moved p on p.life = m.root"
            )

    def _find_origins(self) -> None:
        """Fill table `lacking`: rows that take values from the snapshot, and whether its row has the same key."""
        same = " and ".join(f"r.{name} is not distinct from p.{name}" for name in self._names)
        keys = ", ".join(f"r.{name}" for name in self._names)
        self._sql.execute(
            "create table origins as select l.pos, l.u, r.code as began, "
            f"{same} as same, {keys} from (select pos, list_sort(list(number)) as u from pieces where source is null "
            "group by pos) l join partial p on p.pos = l.pos join persons r on r.o = p.root"
        )
        if self._count(f"origins where began in {_INSERTS}") or (self.emptied is not None and self._count("origins")):
            raise self._damaged("values of a row are in none of its changes")
        self._sql.execute("insert into lacking select pos, u, same from origins")

    def needs_base(self) -> bool:
        """Return whether rows that have another key now need values of the snapshot."""
        return bool(self._count("lacking where not same"))

    def find_in_base(self, base: Files) -> None:
        """Find the snapshot's rows that hold those values."""
        columns = ", ".join(f"{name_of(field)} {sql_type(field.type)}" for field in self._key)
        self._sql.execute(f"create table base_keys ({columns}, pos bigint)")
        shaper = Shaper(self._key, self._history.missing)
        for part in base.read():
            arrays = [*shaper.apply(part.batch).columns, part.places()]
            self._sql.register("incoming", pa.table(arrays, names=[*self._names, "pos"]))
            self._sql.execute("insert into base_keys select * from incoming")
            self._sql.unregister("incoming")
        on = " and ".join(f"b.{name} is not distinct from g.{name}" for name in self._names)
        self._sql.execute(
            "insert into base_pieces select b.pos, g.pos, unnest(g.u) "
            f"from origins g join base_keys b on {on} where not g.same order by b.pos"
        )
        self._sql.execute("drop table base_keys")
        found, wanted = self._count("(select distinct pos from base_pieces)"), self._count("lacking where not same")
        if found != wanted:
            raise self._damaged(f"{wanted - found} rows that were moved are not in the snapshot")

    def _damaged(self, what: str) -> MissingRowsError:
        return MissingRowsError(f"the archive's changes of {self._history.label} do not fit together: {what}")
