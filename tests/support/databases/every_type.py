"""Values of every type that were lost or changed somewhere on their way, and the types that are not built in."""

from __future__ import annotations

NASTY_TEXTS = (
    "''", "' '", r"'\'", r"'\N'", r"'\.'", "E'\\n'", "E'a\\tb\\r\\nc'", "'\"'", "''''", "'NULL'", "'ß€😀'",
    "E'\\n\\\\.\\n'", "repeat('x', 1023)", "repeat('x', 1024)", "repeat('é', 600)", "repeat('y', 1025)",
    "repeat('z', 300000)", "null",
)  # fmt: skip

VALUES: dict[str, tuple[str, ...]] = {
    "bool": ("true", "false", "null"),
    "int2": ("-32768", "-1", "0", "1", "32767", "null"),
    "int4": ("-2147483648", "-1", "0", "1", "2147483647", "null"),
    "int8": ("-9223372036854775808", "-1", "0", "1", "4294967296", "9223372036854775807", "null"),
    "float4": ("'-0'", "0", "'NaN'", "'Infinity'", "'-Infinity'", "1e-45", "3.4028235e38", "0.1", "null"),
    "float8": ("'-0'", "0", "'NaN'", "'Infinity'", "'-Infinity'", "5e-324", "1.7976931348623157e308", "0.1", "null"),
    "text": NASTY_TEXTS,
    "varchar": NASTY_TEXTS,
    "varchar(5)": ("''", "'ab   '", "null"),
    "char(6)": ("''", "'ab'", "'  ab'", r"'\.'", "null"),
    "bpchar": ("''", "'ab  '", "null"),
    '"char"': ("''", "'a'", r"'\'", r"'\377'", '(-1)::"char"', "null"),
    "name": ("''", "'ab'", "repeat('n', 63)", "null"),
    "bytea": ("''", r"'\x00'", r"'\x5c4e'", r"'\xff0a0d09'", r"decode(repeat('00ff', 700), 'hex')", "null"),
    "date": (
        "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'0044-03-15 BC'", "'0001-12-31 BC'", "'0001-01-01'",
        "'1969-12-31'", "'1970-01-01'", "'2000-01-01'", "'2000-02-29'", "'9999-12-31'", "'10000-01-01'",
        "'5874897-12-31'", "null",
    ),
    "timestamp": (
        "'infinity'", "'-infinity'", "'4713-01-01 00:00:00 BC'", "'0001-12-31 23:59:59.999999 BC'", "'0001-01-01'",
        "'1969-12-31 23:59:59.999999'", "'2000-01-01'", "'9999-12-31 23:59:59.999999'", "'10000-01-01'",
        "'294276-12-31 23:59:59.999999'", "'2024-02-29 12:34:56.1'", "null",
    ),
    "timestamp(0)": ("'2024-02-29 12:34:56.7'", "'infinity'"),
    "timestamptz": (
        "'infinity'", "'-infinity'", "'4713-01-01 00:00:00+00 BC'", "'0001-12-31 23:59:59.5+00 BC'", "'0001-01-01+00'",
        "'2000-01-01+00'", "'9999-12-31 23:59:59.999999+00'", "'10000-01-01+00'", "'294276-12-31 23:59:59.999999+00'",
        "'2024-02-29 12:34:56.1+05:30'", "null",
    ),
    "time": ("'00:00'", "'23:59:59.999999'", "'24:00:00'", "null"),
    "timetz": ("'00:00+00'", "'24:00:00-15:59:59'", "'12:34:56.7+05:30'", "null"),
    "interval": (
        "'infinity'", "'-infinity'", "'1 year -2 mons 3 days -04:05:06.789'", "'30 days'", "'1 mon'", "'0'",
        "'-178000000 years'", "null",
    ),
    "numeric": (
        "'NaN'", "'Infinity'", "'-Infinity'", "0", "0.000", "-1.50", "1.5", "1e40", "1e-40", "'1' || repeat('0', 40)",
        "repeat('9', 131072) || '.' || repeat('9', 16383)", "null",
    ),
    "numeric(12,2)": ("'NaN'", "0", "-0.01", "0.01", "9999999999.99", "-9999999999.99", "100", "1000000", "null"),
    "numeric(18,0)": ("'NaN'", "0", "999999999999999999", "-999999999999999999", "10000", "null"),
    "numeric(18,18)": ("'NaN'", "0", "0.999999999999999999", "-0.000000000000000001", "null"),
    "numeric(38,0)": ("'NaN'", "0", "repeat('9', 38)", "'-' || repeat('9', 38)", "1", "18446744073709551616", "null"),
    "numeric(38,19)": ("'NaN'", "-1", "repeat('9', 19) || '.' || repeat('9', 19)", "0.0000000000000000001", "null"),
    "numeric(38,38)": ("'NaN'", "0", "'0.' || repeat('9', 38)", "null"),
    "numeric(39,1)": ("'NaN'", "0", "repeat('9', 38) || '.9'", "null"),
    "numeric(3,-2)": ("12300", "-99900", "0", "null"),
    "numeric(2,5)": ("0.00012", "0", "null"),
    "money": ("'-92233720368547758.08'", "0", "12.34", "null"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "null"),
    "json": ("'{}'", "'{ \"a\" : 1.0, \"a\": \"\\u00e9\\n\" }'", "'null'", "null"),
    "jsonb": (
        "'{}'", "'{\"a\": [1.00, null, \"x\\\\ny\"]}'", "'null'", "'\"😀\"'", "to_jsonb(repeat('q', 2000))", "null",
    ),
    "jsonpath": ("'$.a[*] ? (@ > 1)'", "null"),
    "inet": ("'1.2.3.4'", "'1.2.3.4/32'", "'1.2.3.0/24'", "'::1'", "'fe80::/10'", "null"),
    "cidr": ("'1.2.3.0/24'", "'1.2.3.4/32'", "null"),
    "macaddr": ("'08:00:2b:01:02:03'", "null"),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'", "null"),
    "bit(3)": ("B'101'", "null"),
    "varbit": ("B''", "B'1'", "B'101010101'", "null"),
    "point": ("'(0.1,-0)'", "'(NaN,Infinity)'", "null"),
    "line": ("'{1,2,3}'", "null"),
    "lseg": ("'[(0,0),(1,1)]'", "null"),
    "box": ("'(1,1),(0,0)'", "null"),
    "path": ("'[(0,0),(1,1)]'", "'((0,0),(1,1))'", "null"),
    "polygon": ("'((0,0),(1,1),(2,0))'", "null"),
    "circle": ("'<(1,2),0.1>'", "null"),
    "tsvector": ("''", "'a:1A ''b c'':2 d'", "null"),
    "tsquery": ("'a & !b <-> ''c d'':*'", "null"),
    "oid": ("0", "4294967295", "null"),
    "xid": ("'4294967295'", "null"),
    "xid8": ("'18446744073709551615'", "null"),
    "cid": ("'1'", "null"),
    "tid": ("'(4294967295,65535)'", "null"),
    "pg_lsn": ("'FFFFFFFF/FFFFFFFF'", "'0/0'", "null"),
    "pg_snapshot": ("'10:20:10,14,15'", "null"),
    "txid_snapshot": ("'10:20:10,14,15'", "null"),
    "regclass": ("'pg_class'", "0", "4000000000", "null"),
    "regtype": ("'int4'", "null"),
    "regproc": ("'pg_catalog.textin'", "null"),
    "regprocedure": ("'pg_catalog.textin(cstring)'", "null"),
    "regoper": ("'pg_catalog.||/'", "null"),
    "regoperator": ("'pg_catalog.+(int4,int4)'", "null"),
    "regconfig": ("'simple'", "null"),
    "regdictionary": ("'simple'", "null"),
    "regnamespace": ("'pg_catalog'", "null"),
    "regrole": ("'postgres'", "null"),
    "regcollation": ("'\"C\"'", "null"),
    "refcursor": ("'a \"cursor\"'", "null"),
    "aclitem": ("'postgres=arw/postgres'", "null"),
    "int2vector": ("'1 2 3'", "''", "null"),
    "oidvector": ("'1 4294967295'", "''", "null"),
    "int4[]": ("'{}'", "'{1,NULL,-3}'", "'{{1,2},{3,4}}'", "'[0:1]={1,2}'", "null"),
    "text[]": (r"""array['a', '', null, 'NULL', '"', '\', '{', E'\n', ' x ']""", "null"),
    "bytea[]": (r"array['\x00'::bytea, '\x5c']", "null"),
    "numeric(5,2)[]": ("'{1.10,NaN}'", "null"),
    "char(3)[]": ("'{a,\"b  \"}'", "null"),
    "float8[]": ("'{-0,NaN,0.1,1e-300}'", "null"),
    "timestamptz[]": ("'{infinity,2024-01-01 00:00:00.5+00,0044-03-15 00:00:00+00 BC}'", "null"),
    "interval[]": ("'{infinity,\"1 mon -1 days\"}'", "null"),
    "jsonb[]": ("array['{\"a\": \"x,y\"}'::jsonb]", "null"),
    "int4range": ("'empty'", "'[1,5)'", "'(,)'", "null"),
    "int8range": ("'[1,9223372036854775807)'", "null"),
    "numrange": ("'(1.50,NaN]'", "null"),
    "tsrange": ("'[-infinity,\"2024-01-01 00:00:00\")'", "null"),
    "tstzrange": ("'[\"2024-01-01 00:00:00+00\",)'", "null"),
    "daterange": ("'[2024-01-01,infinity)'", "null"),
    "int4multirange": ("'{}'", "'{[1,3),[5,8)}'", "null"),
    "nummultirange": ("'{(1.50,2]}'", "null"),
    "tstzmultirange": ("'{[\"2024-01-01 00:00:00+00\",)}'", "null"),
    "public.mood": ("'sad'", "'so \"so\"'", "'happy'", "null"),
    "public.mood[]": ("'{sad,\"so \\\"so\\\"\"}'", "null"),
    "public.pair": ("row(1, null)", "row(null, E'a,\"\\\\(\\n')", "row(null, null)", "null"),
    "public.pair[]": ("array[row(1, 'x, y')::public.pair]", "null"),
    "public.positive": ("1", "2147483647", "null"),
    "public.amount": ("1.10", "'NaN'", "null"),
    "public.cents": ("1.10", "'NaN'", "null"),
    "public.code": ("'ab'", "''", "null"),
    "public.moods": ("'sad'", "null"),
    "public.series": ("'{1,2}'", "null"),
    "public.span": ("'[1.5,2.5)'", "null"),
    "public.hstore": ("'a=>NULL, \"b c\"=>\"\\\"\"'", "''", "null"),
    "public.citext": ("'Ab'", "''", "null"),
    "public.ltree": ("'a.b.c'", "null"),
    "public.cube": ("'(1,2),(3,4)'", "'(0.1)'", "'(1e-300,NaN),(Infinity,-0)'", "'()'", "null"),
    "public.hstore[]": ("array['a=>1, \"b,c\"=>NULL'::public.hstore, '']", "null"),
    "public.citext[]": ("array['Ab', 'aB', null, '\"']::public.citext[]", "null"),
    "public.ltree[]": ("'{a.b,c}'", "null"),
    "public.lquery": ("'a.*{1,2}.!b|c@*'", "null"),
    "public.ltxtquery": ("'a & (b* | !c@)'", "null"),
    "public.seg": ("'1.50 .. 2'", "'~6.5'", "'<3'", "'5(+-)0.3'", "null"),
    "public.isbn": ("'978-0-393-04002-9'", "null"),
    "public.query_int": ("'1&(2|!3)'", "null"),
    "public.nickname": ("'Zoe'", "''", "null"),
    "public.embedding": ("'[1,2.50,-3]'", "'[]'", "repeat('e', 3000)", "null"),
    "public.embedding[]": ("array['[1,2]', null, 'a \"b\" \\']::public.embedding[]", "null"),
}  # fmt: skip
"""SQL of the values of each type."""

OBJECTS = """
create type public.mood as enum ('sad', 'so "so"', 'happy');
create type public.pair as (number int4, word text);
create domain public.positive as int4 check (value > 0);
create domain public.amount as numeric(12,2);
create domain public.cents as public.amount;
create domain public.code as char(4);
create domain public.moods as public.mood;
create domain public.series as int4[];
create type public.span as range (subtype = float8);
create extension hstore schema public;
create extension citext schema public;
create extension ltree schema public;
create extension cube schema public;
create extension seg schema public;
create extension isn schema public;
create extension intarray schema public;
create domain public.nickname as public.citext check (value <> 'nobody');
create type public.embedding;
create function public.embedding_in(cstring) returns public.embedding language internal immutable strict as 'textin';
create function public.embedding_out(public.embedding) returns cstring language internal immutable strict as 'textout';
create type public.embedding (input = public.embedding_in, output = public.embedding_out, like = text);
"""
"""Makes the types: each statement ends its line."""
