from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.postgresql.dump.sql_tokens import COMMENT, Token, chain_at, parse_name, string_value, tokens

PIECES = [
    "'",
    "''",
    "E'",
    "\\",
    '"',
    "$$",
    "$tag$",
    "--",
    "\n",
    "/*",
    "*/",
    "::",
    ".",
    "a",
    "B1",
    "U&",
    " ",
    "1.5e3",
    "é",
    "☃",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_the_tokens_of_any_text_are_that_text(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text
    assert "".join(token.text for token in tokens(text, coarse=True)) == text


def comments(text: str, *, coarse: bool) -> list[tuple[int, str]]:
    """The comments of a text, and where they begin."""
    found = list(tokens(text, coarse=coarse))
    places = [0, *accumulate(len(token.text) for token in found)]
    return [(place, token.text) for place, token in zip(places, found, strict=False) if token.kind == COMMENT]


@settings(max_examples=1000)
@given(st.lists(st.sampled_from(["a", "1", "E'", "'", "\\", "--", "$$", '"', "/*"]), max_size=8).map("".join))
@example(r"aE'\'--'")
@example(r"E'\'--'")
@example("/* ' */ --")
def test_coarse_tokens_have_the_same_comments(text: str) -> None:
    assert comments(text, coarse=True) == comments(text, coarse=False)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("public.orders", ["name", "other", "name"]),
        ("""'it''s'""", ["string"]),
        (r"""E'it\'s'""", ["string"]),
        (r"""'a\' b""", ["string", "space", "name"]),
        ("x'ff'", ["string"]),
        ("""e'\\\\' 'x'""", ["string", "space", "string"]),
        ("named'x'", ["name", "string"]),
        ('"a ""b"" c"', ["quoted"]),
        ('U&"\\0061"', ["quoted"]),
        ('$$ it\'s "a" $x$ $$', ["dollar"]),
        ("$body$ $$ $other$ $body$", ["dollar"]),
        ("a$$b", ["name"]),
        ("$1", ["other", "number"]),
        ("-- it's\nx", ["comment", "space", "name"]),
        ("/* a /* b */ 'c */x", ["comment", "name"]),
        ("/* never", ["other", "other", "space", "name"]),
        ("a - -b", ["name", "space", "other", "space", "other", "name"]),
        ("a::int[]", ["name", "cast", "name", "other", "other"]),
        ("1.5e3", ["number"]),
        ("'", ["other"]),
        ("таблица", ["name"]),
    ],
)
def test_texts_are_cut_as_postgresql_cuts_them(text: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokens(text)] == kinds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("public.orders", ("public", "orders")),
        ("PUBLIC.Orders", ("public", "orders")),
        ('"Odd ""name"""."a.b"', ('Odd "name"', "a.b")),
        ("orders", ("orders",)),
        ("a.b.c", ("a", "b", "c")),
        ("public.orders()", ()),
        ("public.", ()),
        ("'public'", ()),
        ("", ()),
    ],
)
def test_a_name_is_read_with_its_parts(text: str, names: tuple[str, ...]) -> None:
    assert parse_name(text) == names


def test_a_chain_begins_only_at_its_first_name() -> None:
    found = list(tokens("a.b"))
    assert [chain_at(found, place) for place in range(3)] == [("a", "b"), (), ()]


def test_only_plain_strings_have_a_value() -> None:
    assert string_value(Token("string", "'it''s'")) == "it's"
    assert string_value(Token("string", r"E'\n'")) is None
    assert string_value(Token("dollar", "$$x$$")) is None
