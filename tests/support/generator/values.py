"""Types, and values of theirs as SQL expressions: what PostgreSQL makes of an expression is the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from holdfast.postgresql.connection.sql import literal

Values = st.SearchStrategy[str]

_DAY_US = 86_400_000_000
_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_PIECES = ("", " ", "a", "é", "😀", "\t", "\n", "\r", "\\", "\\.", "\\N", "'", '"', ",", "{", "}", "(", "NULL", "\x01")
_letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")

texts: st.SearchStrategy[str] = st.one_of(
    st.text(_letters, max_size=12),
    st.lists(st.sampled_from(_PIECES), max_size=8).map("".join),
)
"""Texts that PostgreSQL takes in UTF-8."""


def _cut(word: str, most: int) -> str:
    """Return as much of a word as fits into so many bytes."""
    return word.encode()[:most].decode(errors="ignore")


names: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(
        ("select", "User", "order", "a b", 'say "x"', "x__exact", "x", "%s", "a.b", "rows", "\n", "--", "ß")
    ),
    st.text(_letters, min_size=1, max_size=70).map(lambda word: _cut(word, 63)),
).filter(lambda name: name not in _SYSTEM_COLUMNS)
"""Names of columns, up to 63 bytes."""


def numbered(word: str, number: int) -> str:
    """Return a name that no other number has."""
    end = f".{number}"
    return _cut(word.removeprefix("pg_"), 63 - len(end)) + end


@dataclass(frozen=True)
class Kind:
    """A type.

    :param name: as a column's definition gives it.
    :param values: expressions of this type, none of them NULL.
    :param nullable: takes NULL.
    :param is_array: is an array or a domain over one.
    :param built_in: PostgreSQL's own, and no domain.
    """

    name: str
    values: Values
    nullable: bool = True
    is_array: bool = False
    built_in: bool = True

    def or_null(self) -> Values:
        """Return values that are NULL now and then, where that is one."""
        return st.one_of(self.values, st.just("null")) if self.nullable else self.values


def cast(text: str, name: str) -> str:
    """Return the expression of a value by its text."""
    return f"{literal(text)}::{name}"


def _by_text(name: str, values: st.SearchStrategy[object]) -> Kind:
    return Kind(name, values.map(lambda value: cast(str(value), name)))


def _text(name: str) -> Kind:
    """Return a type of texts, some longer than what is hashed whole, kept in its row, or kept uncompressed."""
    long = st.builds(
        lambda piece, times: f"repeat({literal(piece)}, {times})::{name}",
        st.sampled_from(_PIECES), st.sampled_from((511, 1024, 1025, 9000)),
    )  # fmt: skip
    return Kind(name, st.one_of(texts.map(lambda text: cast(text, name)), long))


def _integers(bits: int) -> st.SearchStrategy[object]:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.one_of(st.sampled_from((least, -1, 0, 1, most)), st.integers(least, most))


def _floats(width: int) -> st.SearchStrategy[object]:
    return st.floats(width=32 if width == 32 else 64)


def _clock(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


_infinities = st.sampled_from(("infinity", "-infinity"))
_clocks = st.one_of(st.sampled_from((0, 1, _DAY_US - 1, _DAY_US)), st.integers(0, _DAY_US)).map(_clock)
_short_clocks = st.one_of(st.sampled_from((0, 1, _DAY_US - 1)), st.integers(0, _DAY_US - 1)).map(_clock)


def _days(most: int) -> st.SearchStrategy[int]:
    """Days since 2000-01-01: from 4714 BC on, with the edges of the years 1 to 9999."""
    edges = (-2_451_545, -730_120, -730_119, -10_957, 0, 2_921_939, 2_921_940, most)
    return st.one_of(st.sampled_from(edges), st.integers(-2_451_545, most), st.integers(-20_000, 20_000))


_dates = _days(2_145_031_948).map(lambda days: f"(date '2000-01-01' + ({days}))")
# The last day of all timestamps is left out: PostgreSQL rounds some of its times up to what it cannot read again.
_moments = st.builds(
    lambda days, clock: f"(date '2000-01-01' + ({days}) + time '{clock}')", _days(106_751_981), _short_clocks
)


def _date() -> Kind:
    return Kind("date", st.one_of(_dates, _infinities.map(lambda word: cast(word, "date"))))


def _timestamp(name: str) -> Kind:
    moments = _moments.map(lambda moment: f"{moment}::{name}")
    return Kind(name, st.one_of(moments, _infinities.map(lambda word: cast(word, name))))


def _time(name: str) -> Kind:
    return _by_text(name, _clocks)


def _interval(name: str) -> Kind:
    span = st.integers(-(2**31) + 1, 2**31 - 1)
    parts = st.builds(
        lambda months, days, sign, hours, clock: f"{months} mons {days} days {sign}{hours}{clock[2:]}",
        span, span, st.sampled_from("+-"), st.integers(0, 2_000_000_000), _short_clocks,
    )  # fmt: skip
    return _by_text(name, st.one_of(parts, _infinities, st.just("0")))


def _sized_numeric(precision: int, scale: int) -> Kind:
    name = f"numeric({precision},{scale})"
    most = 10**precision - 1
    scaled = st.one_of(st.sampled_from((-most, -1, 0, 1, most, 10 ** (precision - 1))), st.integers(-most, most))
    return Kind(
        name,
        st.one_of(scaled.map(lambda number: cast(f"{number}e{-scale}", name)), st.just(cast("NaN", name))),
    )


_any_numeric = st.one_of(
    st.sampled_from(("NaN", "Infinity", "-Infinity", "0", "-0.000", "1e1000", "-1e-1000", "1" + "0" * 40)),
    st.builds(lambda number, scale: f"{number}e{scale}", st.integers(-(10**60), 10**60), st.integers(-80, 20)),
)
_sized_texts = st.integers(1, 20).flatmap(
    lambda size: st.sampled_from(("varchar", "char")).map(
        lambda base: Kind(f"{base}({size})", texts.map(lambda text: cast(text, f"{base}({size})")))
    )
)
_bits = st.text("01", min_size=3, max_size=3)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
).map(lambda value: json.dumps(value, ensure_ascii=False))
_octets = st.integers(0, 255)
_addresses = st.one_of(
    st.tuples(_octets, _octets, _octets, _octets).map(lambda parts: ".".join(map(str, parts))),
    st.ip_addresses(v=6).map(str),
)
_cidrs = st.builds(lambda place, mask: f"network('{place}/{mask}')::cidr", _addresses, st.integers(0, 32))
_cents = st.integers(-(2**63), 2**63 - 1).map(
    lambda each: f"{'-' if each < 0 else ''}{abs(each) // 100}.{abs(each) % 100:02}"
)
_point = st.builds(lambda x, y: f"({x},{y})", st.floats(), st.floats())
_points = st.lists(_point, min_size=1, max_size=4).map(",".join)
_words = st.lists(texts.filter(bool).map(lambda word: literal(_cut(word, 2000))), max_size=4).map(", ".join)


def _bounds(values: Values) -> Values:
    return st.one_of(values, st.just("null"))


def range_values(name: str, subtype: str, values: Values, *, discrete: bool) -> Values:
    """Return ranges by their constructor, whose bounds come in their order."""
    ends = st.just("[)") if discrete else st.sampled_from(("[)", "[]", "()", "(]"))
    return st.one_of(
        st.just(cast("empty", name)),
        st.builds(
            lambda one, other, end: (
                f"{name}(least({one}, {other})::{subtype}, greatest({one}, {other})::{subtype}, '{end}')"
            ),
            values, values, ends,
        ),
        st.builds(lambda low, end: f"{name}({low}::{subtype}, null, '{end}')", _bounds(values), ends),
    )  # fmt: skip


def _range(name: str, subtype: Kind, *, discrete: bool = False) -> tuple[Kind, Kind]:
    """Return the kinds of a built-in range and of its multirange."""
    values = range_values(name, subtype.name, subtype.values, discrete=discrete)
    many = name.removesuffix("range") + "multirange"
    multiranges = st.lists(values, max_size=3).map(lambda each: f"{many}({', '.join(each)})")
    return Kind(name, values), Kind(many, multiranges)


_INT4, _INT8 = _by_text("int4", _integers(32)), _by_text("int8", _integers(64))
_NUMERIC = _by_text("numeric", _any_numeric)

FIXED: tuple[Kind, ...] = (
    Kind("bool", st.sampled_from(("true", "false"))),
    _by_text("int2", _integers(16)),
    _INT4,
    _INT8,
    _by_text("float4", _floats(32)),
    _by_text("float8", _floats(64)),
    _text("text"),
    _text("varchar"),
    _text("bpchar"),
    _by_text("name", texts),
    _by_text('"char"', st.sampled_from(("", "a", "\\", "\\377", "\\001"))),
    Kind("bytea", st.binary(max_size=40).map(lambda value: cast(f"\\x{value.hex()}", "bytea"))),
    Kind("bytea", st.sampled_from((1024, 1025, 5000)).map(lambda size: f"decode(repeat('5c00ff0a', {size}), 'hex')")),
    _date(),
    *(_timestamp(f"timestamp{size}{zone}") for zone in ("", " with time zone") for size in ("", "(0)", "(3)")),
    *(_time(f"time{size}") for size in ("", "(0)", "(5)")),
    _by_text("timetz", st.builds(lambda clock, zone: clock + zone, _clocks, st.sampled_from(("+00", "-15:59:59")))),
    *(_interval(f"interval{size}") for size in ("", "(0)", " day to second(2)", " year to month")),
    _NUMERIC,
    _by_text("money", _cents),
    _by_text("uuid", st.uuids()),
    _by_text("json", _json),
    _by_text("jsonb", _json),
    Kind("jsonb", _text("text").values.map(lambda text: f"to_jsonb({text})")),
    _by_text("inet", st.builds(lambda place, mask: f"{place}/{mask}", _addresses, st.integers(0, 32))),
    Kind("cidr", _cidrs),
    _by_text("macaddr", st.lists(_octets, min_size=6, max_size=6).map(lambda each: bytes(each).hex(":"))),
    _by_text("macaddr8", st.lists(_octets, min_size=8, max_size=8).map(lambda each: bytes(each).hex(":"))),
    _by_text("bit(3)", _bits),
    _by_text("varbit", st.text("01", max_size=70)),
    _by_text("point", _point),
    _by_text("box", st.tuples(_point, _point).map(",".join)),
    _by_text("lseg", st.tuples(_point, _point).map(",".join)),
    _by_text("circle", st.builds(lambda point, size: f"<{point},{size}>", _point, st.floats(0, 1e300))),
    _by_text("path", st.one_of(_points.map("[{}]".format), _points.map("({})".format))),
    _by_text("polygon", _points.map("({})".format)),
    Kind("tsvector", _words.map(lambda words: f"array_to_tsvector(array[{words}]::text[])")),
    _by_text("pg_lsn", st.integers(0, 2**64 - 1).map(lambda place: f"{place >> 32:X}/{place & 0xFFFFFFFF:X}")),
    _by_text("oid", st.integers(0, 2**32 - 1)),
    _by_text("xid8", st.integers(0, 2**64 - 1)),
    _by_text("regtype", st.sampled_from(("int4", "text[]", "4000000000"))),
    *_range("int4range", _INT4, discrete=True),
    *_range("int8range", _INT8, discrete=True),
    *_range("numrange", _NUMERIC),
    *_range("daterange", Kind("date", _dates), discrete=True),
    *_range("tsrange", _timestamp("timestamp")),
    *_range("tstzrange", _timestamp("timestamptz")),
)  # fmt: skip
"""Built-in types, each with its edges."""

_BINARY_NAMES = frozenset(
    ("bool", "int2", "int4", "int8", "float4", "float8", "text", "bytea", "date", "timestamp", "time", "uuid")
)
_sized_numerics = st.one_of(
    st.tuples(st.integers(1, 38), st.integers(0, 38)).map(lambda each: _sized_numeric(max(each), each[1])),
    st.tuples(st.integers(1, 60), st.integers(-5, 65)).map(lambda each: _sized_numeric(*each)),
)

binary_kinds: st.SearchStrategy[Kind] = st.one_of(
    st.sampled_from([kind for kind in FIXED if kind.name in _BINARY_NAMES]),
    st.tuples(st.integers(1, 38), st.integers(0, 38)).map(lambda each: _sized_numeric(max(each), each[1])),
)
"""Types that are loaded by the binary form of COPY."""

built_in_kinds: st.SearchStrategy[Kind] = st.one_of(st.sampled_from(FIXED), _sized_numerics, _sized_texts, binary_kinds)
"""Types without anything of one's own."""


def array_of(kind: Kind) -> Kind:
    """Return the type of arrays, with NULL elements, none, several dimensions, and other bounds."""
    name = f"{kind.name}[]"
    elements = st.lists(kind.or_null(), min_size=1, max_size=3)

    def plain(each: list[str]) -> str:
        return f"array[{', '.join(each)}]::{name}"

    def square(each: list[str]) -> str:
        return f"array[array[{', '.join(each)}], array[{', '.join(reversed(each))}]]::{name}"

    def shifted(each: list[str]) -> str:
        return f"('[-1:{len(each) - 2}]=' || ({plain(each)})::text)::{name}"

    shapes: list[Callable[[list[str]], str]] = [plain, square, shifted]
    values = st.one_of(*(elements.map(shape) for shape in shapes), st.just(cast("{}", name)))
    return Kind(name, values, is_array=True, built_in=kind.built_in)
