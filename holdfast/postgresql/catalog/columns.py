"""Columns of relations, with the catalog's facts about their values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.common.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    :param number: `attnum`; becomes the Parquet field id, so it survives renames.
    :param type: the declared type as `format_type` writes it, such as `numeric(12,2)`.
    :param base: `typname` of the type below all domains, such as `numeric` or `_int4`.
    :param base_schema: the schema of that type; `pg_catalog` for built-in ones.
    :param kind: `typtype` of that type: b(ase), c(omposite), e(num), r(ange), m(ultirange).
    :param output: its output function, quoted and qualified: the one exact way to its text.
    :param precision: of numeric(p,s), also through domains; None where there is none.
    :param scale: of numeric(p,s); negative or above the precision since PostgreSQL 15.
    :param generated: "" or "s" (stored) or "v" (virtual).
    :param identity: "" or "a" (always) or "d" (by default).
    :param missing: text, by the output function under `VALUE_SETTINGS`, of the value that rows older than
        the column have (`attmissingval`); None where they have none. Older records do not tell it.
    """

    name: str
    number: int
    type: str
    base: str
    base_schema: str
    kind: str
    is_array: bool
    output: str
    precision: int | None
    scale: int | None
    not_null: bool
    generated: str
    identity: str
    missing: str | None = None

    @property
    def holds_others(self) -> bool:
        """Return whether the column's values contain values of other types.

        Arrays, composite types, ranges and multiranges do.
        """
        return self.is_array or self.kind in ("c", "r", "m")

    def takes_other_values(self, other: Column) -> bool:
        """Return whether a column of the same number has another type or length.

        Two user-defined types count as the same, since a type may be renamed.
        """
        if "pg_catalog" not in (self.base_schema, other.base_schema):
            return False
        kept = (self.base_schema, self.base, self.precision, self.scale)
        is_sized = "(" in self.type or "(" in other.type
        other_kept = (other.base_schema, other.base, other.precision, other.scale)
        return kept != other_kept or (is_sized and self.type != other.type)

    def to_dict(self) -> dict[str, Any]:
        """Return the column as JSON-friendly values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the column that `to_dict` described."""
        return cls(**values)


# attmissingval is an array of the column's type with one element. Text made of the array would have to be taken
# apart again, by the delimiter of a type; array_to_string gives what the element's output function does.
#
# A domain over numeric(12,2) keeps the (12,2) in its own row, not in the column's; a domain over a
# domain in the lower one. The typmod of numeric is ((p << 16) | (s & 0x7ff)) + 4, s in eleven bits.
_QUERY = """
with recursive chain as (
    select a.attrelid, a.attnum, a.atttypid as typid, a.atttypmod as typmod
    from pg_catalog.pg_attribute a
    where a.attrelid = any(%(oids)s::pg_catalog.oid[]) and a.attnum > 0 and not a.attisdropped
    union all
    select c.attrelid, c.attnum, t.typbasetype, case when c.typmod = -1 then t.typtypmod else c.typmod end
    from chain c join pg_catalog.pg_type t on t.oid = c.typid
    where t.typtype = 'd'
)
select a.attrelid::pg_catalog.int8 as relation,
    a.attname::pg_catalog.text as name,
    a.attnum::pg_catalog.int4 as number,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    t.typname::pg_catalog.text as base,
    n.nspname::pg_catalog.text as base_schema,
    t.typtype::pg_catalog.text as kind,
    t.typcategory = 'A' as is_array,
    pg_catalog.quote_ident(pn.nspname) || '.' || pg_catalog.quote_ident(p.proname) as output,
    case when m.sized then ((c.typmod - 4) >> 16) & 65535 end as precision,
    case when m.sized then (((c.typmod - 4) & 2047) # 1024) - 1024 end as scale,
    a.attnotnull as not_null,
    a.attgenerated::pg_catalog.text as generated,
    a.attidentity::pg_catalog.text as identity,
    case when a.atthasmissing then pg_catalog.array_to_string(a.attmissingval, '') end as missing
from chain c
join pg_catalog.pg_attribute a on a.attrelid = c.attrelid and a.attnum = c.attnum
join pg_catalog.pg_type t on t.oid = c.typid and t.typtype <> 'd'
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
join pg_catalog.pg_proc p on p.oid = t.typoutput
join pg_catalog.pg_namespace pn on pn.oid = p.pronamespace
cross join lateral (select t.oid = 'pg_catalog.numeric'::pg_catalog.regtype and c.typmod <> -1) as m(sized)
order by a.attrelid, a.attnum
"""


def read_columns(connection: psycopg.Connection[Any], oids: Iterable[int]) -> dict[int, tuple[Column, ...]]:
    """Return the columns of each relation in `oids`, by oid, in order of their numbers.

    A relation without columns, or one that does not exist, has an empty tuple.
    """
    found: dict[int, list[Column]] = {oid: [] for oid in oids}
    cursor = connection.execute(_QUERY.encode(), {"oids": list(found)})
    names = [column.name for column in cursor.description or ()][1:]
    seen: dict[tuple[Any, ...], Column] = {}  # partitions and the like have the same ones, thousands of times
    for relation, *values in cursor:
        described = tuple(values)
        if described not in seen:
            seen[described] = Column(**dict(zip(names, described, strict=True)))
        found[relation].append(seen[described])
    return {oid: tuple(columns) for oid, columns in found.items()}


_WITHOUT_INPUT: Final = frozenset(
    {
        "gtsvector", "_gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
        "pg_dependencies", "pg_mcv_list", "pg_ndistinct", "pg_node_tree",
    }
)  # fmt: skip
"""Types of pg_catalog with an output function and no input function."""


class UnkeepableTypeError(RefusedError):
    """Column type without a text form that could be loaded again."""


def check_keepable(columns: Iterable[Column]) -> None:
    """Refuse columns with values that cannot be loaded again.

    Virtual generated columns have no values of their own.

    :raises UnkeepableTypeError: a type cannot be loaded again; names its column.
    """
    for column in columns:
        if column.generated != "v" and column.base in _WITHOUT_INPUT and column.base_schema == "pg_catalog":
            raise UnkeepableTypeError(
                f'column "{column.name}" has type {column.type}, which PostgreSQL writes but cannot read back: '
                "leave the table out or drop the column"
            )
