"""Something that was promised and does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Violation:
    """One broken promise.

    :param invariant: which one, as the report names it.
    :param words: what was seen.
    """

    invariant: str
    words: str


@dataclass
class Verdict:
    """What a check has looked at, and what it found.

    :param looked: how many cases were judged; a check that judged none has shown nothing.
    :param passed_over: how many it could not judge.
    """

    invariant: str
    looked: int = 0
    passed_over: int = 0
    violations: list[Violation] = field(default_factory=list)

    def judge(self, holds: bool, words: str) -> None:
        """Count a case; where it does not hold, the words say what was seen."""
        self.looked += 1
        if not holds:
            self.violations.append(Violation(self.invariant, words))


def all_violations(verdicts: Iterable[Verdict]) -> list[Violation]:
    """Return those of all checks."""
    return [violation for verdict in verdicts for violation in verdict.violations]
