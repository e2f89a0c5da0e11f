"""Findings of `holdfast doctor`, on this machine and on those of a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class DoctorFinding:
    """The result of one check; `remedy` is empty if it passed, and with `is_warning` everything works."""

    what: str
    found: str
    remedy: str = ""
    is_warning: bool = False

    @property
    def ok(self) -> bool:
        return not self.remedy or self.is_warning

    def describe(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return {"what": self.what, "found": self.found, "remedy": self.remedy, "warning": self.is_warning}

    @classmethod
    def described(cls, value: Mapping[str, Any]) -> DoctorFinding:
        """Return the finding that `describe` gave."""
        return cls(value["what"], value["found"], value["remedy"], value["warning"])
