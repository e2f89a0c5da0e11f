"""Tokens of SQL as pg_dump writes it: as much of the grammar as renaming needs, and exactly that.

Rules: PostgreSQL manual, 4.1 "Lexical Structure", with standard_conforming_strings on, as pg_dump sets it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SPACE, COMMENT, STRING, DOLLAR = "space", "comment", "string", "dollar"
QUOTED, NAME, CAST, OTHER = "quoted", "name", "cast", "other"

_LETTER = r"A-Za-z_\x80-\U0010ffff"
_TOKENS = rf"""
    (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*' | (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*')
    | (?P<dollar>\$(?P<tag>|[{_LETTER}][{_LETTER}0-9]*)\$.*?\$(?P=tag)\$)
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
    | (?P<name>[{_LETTER}][{_LETTER}0-9$]*)
    | (?P<number>[0-9][A-Za-z0-9_.]*)
    | (?P<cast>::)
    | (?P<other>.)
    """
_TOKEN = re.compile(_TOKENS, re.DOTALL | re.VERBOSE)

# Possessive: the end of a name that stands before a quote begins no string such as E'…'.
_RUN = rf"""
    (?P<run>(?:
      [^-/'"$0-9{_LETTER}]++ | [0-9][A-Za-z0-9_.]*+ | [{_LETTER}][{_LETTER}0-9$]*+ (?!['"]) | -(?!-) | /(?!\*)
    )++)
    """
_COARSE = re.compile(f"{_RUN} | {_TOKENS}", re.DOTALL | re.VERBOSE)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """One token; the texts of all tokens together are the whole text."""

    kind: str
    text: str

    @property
    def is_identifier(self) -> bool:
        """Return whether it can name something; a keyword can, too."""
        return self.kind == NAME or (self.kind == QUOTED and self.text[0] == '"')

    @property
    def identifier(self) -> str:
        """Return the name that it stands for; "" if it is no identifier."""
        if self.kind == QUOTED and self.text[0] == '"':
            return self.text[1:-1].replace('""', '"')
        return self.text.lower() if self.kind == NAME else ""

    @property
    def word(self) -> str:
        """Return an unquoted word in capitals, as keywords are compared; "" for anything else."""
        return self.text.upper() if self.kind == NAME else ""


def tokens(text: str, *, coarse: bool = False) -> Iterator[Token]:
    """Yield the tokens of any text.

    The first character of an unterminated comment or string is a token of its own.

    :param coarse: what lies between comments, strings and quoted names is one token, which is several times faster.
    """
    pattern = _COARSE if coarse else _TOKEN
    place = 0
    while found := pattern.match(text, place):
        kind, end = found.lastgroup or OTHER, found.end()
        if kind == "tag":  # the last group that matched, inside the dollar quote
            kind = DOLLAR
        if found.group() == "/*":
            end = _end_of_comment(text, place)
            kind = COMMENT if end > place + 1 else OTHER
        yield Token(kind, text[place:end])
        place = end


def solid(found: Iterable[Token]) -> list[Token]:
    """Return the tokens that are neither space nor comment."""
    return [token for token in found if token.kind not in (SPACE, COMMENT)]


def text_of(found: Iterable[Token]) -> str:
    """Return the text of tokens."""
    return "".join(token.text for token in found)


def statements(text: str) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each statement, from its first word to its semicolon.

    Those within a routine's body that is no string are taken for statements of their own.
    """
    begun: list[Token] = []
    for token in tokens(text):
        if begun or token.kind not in (SPACE, COMMENT):
            begun.append(token)
        if token.text == ";":
            yield begun
            begun = []


def _end_of_comment(text: str, start: int) -> int:
    """Return the end of a comment with nested ones, or of its first character if it has none."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return edge.end()
    return start + 1


def chain_at(found: Sequence[Token], place: int) -> tuple[str, ...]:
    """Return the names joined by dots that begin at `place`: ("public", "orders"); () where none begins."""
    if not found[place].is_identifier or (place and found[place - 1].text == "."):
        return ()
    names = [found[place].identifier]
    while place + 2 < len(found) and found[place + 1].text == "." and found[place + 2].is_identifier:
        place += 2
        names.append(found[place].identifier)
    return tuple(names)


def chains(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of several parts in a text, such as `("public", "orders")`."""
    found = list(tokens(text))
    return (chain for place in range(len(found)) if len(chain := chain_at(found, place)) > 1)


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name such as `public."Odd name"`; () where it is none."""
    found = list(tokens(text))
    names = chain_at(found, 0) if found else ()
    return names if len(found) == 2 * len(names) - 1 else ()


def string_value(token: Token) -> str | None:
    """Return the value of a plain string token; None for any other kind."""
    if token.kind != STRING or token.text[0] != "'":
        return None
    return token.text[1:-1].replace("''", "'")
