"""Findings of `holdfast doctor`, on this machine and on those of a Spark cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class DoctorFinding:
    """The result of one check; `remedy` is empty where it passed."""

    what: str
    found: str
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the check passed."""
        return not self.remedy

    def describe(self) -> dict[str, str]:
        """Return the finding as JSON has it."""
        return asdict(self)

    @classmethod
    def described(cls, value: Mapping[str, str]) -> DoctorFinding:
        """Return the finding that `describe` has told."""
        return cls(value["what"], value["found"], value["remedy"])
