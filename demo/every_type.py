"""The sample table `shop.every_type`: a column of every type PostgreSQL has, with its awkward values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

_AWKWARD_TEXT = (
    "",
    " ",
    "NULL",
    r"\N",
    r"\.",
    "tab\there, new\nline, return\r, quote\" and ' and back\\slash",
    "żółć, 李小龍, עברית, e\u0301, 🐉, \u200d, \U0010ffff",
    "\x01\x1f\x7f",
    "long " * 20_000,
)


@dataclass(frozen=True)
class Column:
    """One column: its name, its type and the values of its rows, as text; NULL where there are no more.

    :param since: the first server version, such as 170000, that knows `later_values`.
    """

    name: str
    type: str
    values: tuple[str, ...]
    since: int = 0
    later_values: tuple[str, ...] = ()

    def values_for(self, server_version: int) -> tuple[str, ...]:
        """Return the values a server of this version knows."""
        return self.values + (self.later_values if server_version >= self.since else ())


_NUMBERS = (
    Column("a_boolean", "boolean", ("true", "false")),
    Column("a_smallint", "smallint", ("0", "-32768", "32767")),
    Column("an_integer", "integer", ("0", "-2147483648", "2147483647")),
    Column("a_bigint", "bigint", ("0", "-9223372036854775808", "9223372036854775807")),
    Column("a_real", "real", ("0", "-0", "0.1", "1e-45", "3.4028235e38", "NaN", "Infinity", "-Infinity")),
    Column(
        "a_double",
        "double precision",
        ("0", "-0", "0.1", "5e-324", "1.7976931348623157e308", "NaN", "Infinity", "-Infinity"),
    ),
    Column(
        "a_numeric",
        "numeric",
        ("0", "1.000", "-0.0000000000000000000000000000000000000001", "1234567890123456789012345678901234567890",
         "NaN", "Infinity", "-Infinity", "9" * 1000 + "." + "9" * 500, "1e-1000"),
    ),
    Column(
        "a_numeric_40",
        "numeric(40, 10)",
        ("0", "123456789012345678901234567890.0123456789", "-999999999999999999999999999999.9999999999", "NaN"),
    ),
    Column("a_numeric_38", "numeric(38, 0)", ("0", "9" * 38, "-" + "9" * 38, "NaN")),
    Column("a_numeric_18", "numeric(18, 4)", ("0", "99999999999999.9999", "-0.0001", "NaN")),
    Column("a_rounded", "numeric(5, -2)", ("0", "1234567", "-9999900")),
    Column("a_small_fraction", "numeric(3, 6)", ("0", "0.000999", "-0.000001")),
    Column("money", "money", ("0", "-92233720368547758.08", "92233720368547758.07")),
    Column("oid", "oid", ("0", "4294967295")),
)  # fmt: skip

_TEXTS = (
    Column("a_text", "text", _AWKWARD_TEXT),
    Column("a_varchar", "varchar(12)", ("", "exactly12chr", "🐉" * 12)),
    Column("a_bpchar", "char(5)", ("", "a", "12345", "🐉")),
    Column("a_char", '"char"', ("", "a", r"\200", r"\377")),
    Column("a_name", "name", ("", "x" * 63, 'Quote"d')),
    Column("a_bytea", "bytea", (r"\x", r"\x00", r"\xdeadbeef00ff5c27", r"\x" + "00ff" * 20_000)),
    Column("a_refcursor", "refcursor", ("", "cursor 1")),
    Column("a_uuid", "uuid", ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")),
    Column(
        "a_json",
        "json",
        ("null", '{"a": 1,  "a": 2}', r'["\u00e9", "é", 1E+400, 1.0, -0]', '""', "{}", "[ ]"),
    ),
    Column(
        "a_jsonb",
        "jsonb",
        ("null", '{"b": [1, {"c": null}], "a": "\\n\\"\\\\"}', '[1.10, 12345678901234567890123456789.5, -0.0]', "{}"),
    ),
    Column("a_jsonpath", "jsonpath", ("$", 'strict $."a"[*] ? (@ > 5)')),
    Column("an_xml", "xml", ("<a/>", "<a b='c'>é &amp; <![CDATA[<]]></a>", "text only")),
    Column("a_tsvector", "tsvector", ("", "'a':1A,2 'it''s':3", "fat cat")),
    Column("a_tsquery", "tsquery", ("", "'fat' & ('rat' | !'cat')", "'a':*B <2> 'b'")),
)  # fmt: skip

_TIMES = (
    Column(
        "a_date",
        "date",
        ("2000-01-01", "infinity", "-infinity", "4713-01-01 BC", "0044-03-15 BC", "0001-01-01", "9999-12-31",
         "5874897-12-31"),
    ),
    Column("a_time", "time", ("00:00:00", "24:00:00", "23:59:59.999999")),
    Column("a_time_of_seconds", "time(0)", ("00:00:00", "24:00:00", "23:59:59")),
    Column("a_timetz", "timetz", ("00:00:00+00", "24:00:00-15:59:59", "23:59:59.999999+15:59:59")),
    Column(
        "a_timestamp",
        "timestamp",
        ("2000-01-01", "infinity", "-infinity", "4714-11-24 00:00:00 BC", "0044-03-15 12:00:00 BC",
         "1969-12-31 23:59:59.999999", "294276-12-31 23:59:59.999999"),
    ),
    Column("a_timestamp_of_ms", "timestamp(3)", ("2000-01-01 00:00:00.123", "infinity")),
    Column(
        "a_timestamptz",
        "timestamptz",
        ("2000-01-01 00:00:00+00", "infinity", "-infinity", "4714-11-24 00:00:00+00 BC",
         "2024-03-31 02:30:00+05:45", "294276-12-31 23:59:59.999999+00"),
    ),
    Column(
        "an_interval",
        "interval",
        ("0", "1 year -2 months 3 days -04:05:06.000007", "-178000000 years", "1 month", "30 days", "720 hours"),
        since=170000,
        later_values=("infinity", "-infinity"),
    ),
    Column("an_interval_of_days", "interval day to second(3)", ("3 days 04:05:06.789",)),
)  # fmt: skip

_BITS_AND_PLACES = (
    Column("a_bit", "bit(11)", ("00000000000", "10101010101", "11111111111")),
    Column("a_varbit", "bit varying", ("", "1", "0" * 70 + "1")),
    Column("an_inet", "inet", ("0.0.0.0/0", "192.168.1.5/24", "::1", "2001:db8::ff00:42:8329/64")),
    Column("a_cidr", "cidr", ("0.0.0.0/0", "192.168.0.0/16", "2001:db8::/32")),
    Column("a_macaddr", "macaddr", ("00:00:00:00:00:00", "08:00:2b:01:02:03")),
    Column("a_macaddr8", "macaddr8", ("08:00:2b:01:02:03:04:05",)),
    Column("a_point", "point", ("(0,-0)", "(1.5,-1e300)", "(NaN,Infinity)")),
    Column("a_line", "line", ("{1,-1,0}", "{0,1,0.1}")),
    Column("a_lseg", "lseg", ("[(0,0),(1,1)]",)),
    Column("a_box", "box", ("(2,2),(1,1)",)),
    Column("a_path", "path", ("[(0,0),(1,1)]", "((0,0),(1,1),(2,0))")),
    Column("a_polygon", "polygon", ("((0,0),(1,1),(2,0))",)),
    Column("a_circle", "circle", ("<(1,2),0.1>",)),
)

_INTERNALS = (
    Column("a_pg_lsn", "pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF")),
    Column("a_pg_snapshot", "pg_snapshot", ("10:20:10,14,15", "1:1:")),
    Column("a_txid_snapshot", "txid_snapshot", ("10:20:10,14,15",)),
    Column("an_xid", "xid", ("0", "4294967295")),
    Column("an_xid8", "xid8", ("0", "18446744073709551615")),
    Column("a_cid", "cid", ("0", "4294967295")),
    Column("a_tid", "tid", ("(0,0)", "(4294967295,65535)")),
    Column("an_int2vector", "int2vector", ("", "1 -2 3")),
    Column("an_oidvector", "oidvector", ("", "1 2 3")),
    # Kept as numbers, shown as names: a copy must go by the name.
    Column("a_regclass", "regclass", ("-", "pg_catalog.pg_class", "shop.customer", 'shop."order"')),
    Column("a_regcollation", "regcollation", ("-", 'pg_catalog."C"')),
    Column("a_regconfig", "regconfig", ("simple",)),
    Column("a_regdictionary", "regdictionary", ("simple",)),
    Column("a_regnamespace", "regnamespace", ("pg_catalog", "hr")),
    Column("a_regoper", "regoper", ("pg_catalog.||/",)),
    Column("a_regoperator", "regoperator", ("pg_catalog.+(integer,integer)",)),
    Column("a_regproc", "regproc", ("pg_catalog.now",)),
    Column("a_regprocedure", "regprocedure", ("pg_catalog.abs(integer)",)),
    Column("a_regrole", "regrole", ("-", "pg_read_all_data")),
    Column("a_regtype", "regtype", ("integer", "shop.customer_kind")),
)

_RANGES = (
    Column("an_int4range", "int4range", ("empty", "[1,10)", "(,5]", "(,)")),
    Column("an_int8range", "int8range", ("empty", "[-9223372036854775808,9223372036854775807)")),
    Column("a_numrange", "numrange", ("empty", "[1.50,2.500)", "(1e-20,)")),
    Column("a_tsrange", "tsrange", ("empty", "[-infinity,infinity]", "[2000-01-01,2000-01-02)")),
    Column("a_tstzrange", "tstzrange", ("empty", "[2000-01-01 00:00:00+00,infinity)", "(,)")),
    Column("a_daterange", "daterange", ("empty", "[2000-01-01,2000-02-01)", "[0044-03-15 BC,infinity]")),
    Column("an_int4multirange", "int4multirange", ("{}", "{[1,2),[5,8)}")),
    Column("an_int8multirange", "int8multirange", ("{}", "{(,-5),[5,)}")),
    Column("a_nummultirange", "nummultirange", ("{}", "{[1.0,2.00),(3,4)}")),
    Column("a_tsmultirange", "tsmultirange", ("{}", "{[2000-01-01,2000-01-02)}")),
    Column("a_tstzmultirange", "tstzmultirange", ("{}", "{[2000-01-01 00:00:00+00,infinity)}")),
    Column("a_datemultirange", "datemultirange", ("{}", "{[2000-01-01,2000-02-01),[2001-01-01,)}")),
)

_OF_OUR_OWN = (
    Column("an_enum", "shop.customer_kind", ("private", "it's complicated")),
    Column("a_domain", "shop.country_code", ("CH",)),
    Column("a_composite", "shop.address", ("(,,,)", '("1, ""Main"" St",,8000,"(1,2)")')),
    Column("an_own_range", "shop.float8range", ("empty", "[0.1,Infinity]")),
    Column("an_own_multirange", "shop.float8multirange", ("{}", "{[0.1,0.2)}")),
)

_ARRAYS = (
    Column(
        "integers",
        "integer[]",
        ("{}", "{NULL}", "{1,NULL,3}", "[2:4]={1,2,3}", "{{1,2},{3,NULL}}", "[-1:0][5:6]={{1,2},{3,4}}"),
    ),
    Column("texts", "text[]", ("{}", r'{"",NULL,"NULL","a,b","{}","q\"","b\\s","' + "new\nline" + '"}')),
    Column("numerics", "numeric(40, 10)[]", ("{1,NaN,NULL}", "{123456789012345678901234567890.0123456789}")),
    Column("doubles", "double precision[]", ("{NaN,-0,Infinity,0.1}",)),
    Column("booleans", "boolean[]", ("{t,f,NULL}",)),
    Column("dates", "date[]", ("{2000-01-01,infinity,NULL}", '{"0044-03-15 BC"}')),
    Column("timestamps", "timestamptz[]", ('{"2000-01-01 00:00:00+00",-infinity}',)),
    Column("byteas", "bytea[]", (r'{"\\x","\\x00ff",NULL}',)),
    Column("jsonbs", "jsonb[]", (r'{"{\"a\": [1, 2]}","null",NULL}',)),
    Column("uuids", "uuid[]", ("{00000000-0000-0000-0000-000000000001}",)),
    Column("intervals", "interval[]", ("{1 day,NULL}",)),
    Column("varbits", "bit varying[]", ('{"",101}',)),
    Column("ranges", "int4range[]", ('{empty,"[1,3)"}',)),
    Column("enums", "shop.customer_kind[]", ('{private,"it\'s complicated",NULL}',)),
    Column("composites", "shop.address[]", (r'{"(\"a, b\",,,)",NULL}',)),
)

COLUMNS = (
    *_NUMBERS, *_TEXTS, *_TIMES, *_BITS_AND_PLACES, *_INTERNALS, *_RANGES, *_OF_OUR_OWN, *_ARRAYS,
)  # fmt: skip

# Types nobody can put into a table, or whose values name roles, which belong to the server.
WITHOUT_COLUMN = frozenset({
    "aclitem", "gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_dependencies",
    "pg_mcv_list", "pg_ndistinct", "pg_node_tree",
})  # fmt: skip


def _has_xml(connection: psycopg.Connection) -> bool:
    """Say whether the server was built with libxml."""
    try:
        with connection.transaction():
            connection.execute("select '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def _rows(columns: list[Column], server_version: int) -> Iterator[list[str | None]]:
    """Yield the rows: first one of NULLs, then the n-th values of all columns."""
    values = [column.values_for(server_version) for column in columns]
    yield [None] * len(columns)
    for number in range(max(map(len, values))):
        yield [given[number] if number < len(given) else None for given in values]


def create(connection: psycopg.Connection) -> None:
    """Create `shop.every_type` and its rows; the column `an_xml` only where the server has XML."""
    with_xml = _has_xml(connection)
    columns = [column for column in COLUMNS if with_xml or column.type != "xml"]
    definitions = [sql.SQL(f"{column.name} {column.type}") for column in columns]
    connection.execute(
        sql.SQL("create table shop.every_type (id integer generated always as identity primary key, {})").format(
            sql.SQL(", ").join(definitions)
        )
    )
    insert = sql.SQL("insert into shop.every_type ({}) values ({})").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.SQL(", ").join(sql.Placeholder() for _ in columns),
    )
    with connection.cursor() as cursor:
        cursor.executemany(insert, list(_rows(columns, connection.info.server_version)))
