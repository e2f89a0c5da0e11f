"""Names in PromQL expressions, as far as our rules and dashboards use the language."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STRING = re.compile(r'"[^"]*"')
_SELECTOR = re.compile(r"(holdfast_\w+)\s*(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_WORD = re.compile(r"[A-Za-z_]\w*")

WORDS = {"absent", "and", "by", "count", "max", "min", "offset", "on", "or", "sum", "time", "unless", "vector"}
"""Functions and operators that may be used; another one has to be added here by somebody who has looked at it."""


@dataclass(frozen=True)
class Named:
    """Names in an expression.

    :param metrics: each with the labels that it is selected by.
    :param grouped: labels that are grouped or matched by.
    :param others: words that are no metric of ours, no label, no length of time and none of `WORDS`.
    """

    metrics: tuple[tuple[str, frozenset[str]], ...]
    grouped: frozenset[str]
    others: frozenset[str]


def named_in(expression: str) -> Named:
    """Return the names in an expression."""
    plain = _STRING.sub('""', expression)
    metrics = tuple((name, frozenset(_MATCHER.findall(labels or ""))) for name, labels in _SELECTOR.findall(plain))
    grouped = frozenset(label for group in _GROUPING.findall(plain) for label in _WORD.findall(group))
    rest = _GROUPING.sub(lambda found: found[0].partition("(")[0], _SELECTOR.sub("", plain))
    return Named(metrics, grouped, frozenset(_WORD.findall(re.sub(r"\b\d+[smhdw]\b", "", rest))) - WORDS)
