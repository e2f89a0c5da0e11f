"""The transactions of the update log with one guard taken out of each: what explores them must find a fault."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Generic, TypeVar

import pytest

from holdfast.replication.log import log, recovery_claim, replicas, trimming
from tests.support.replicas.log_explorer import Bounds

B = TypeVar("B")


@dataclass(frozen=True)
class Edit:
    """A piece of a function's text that is replaced."""

    module: ModuleType
    function: str
    old: str
    new: str

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        """Put what comes of it in the place of the shipped function, wherever that was imported."""
        shipped = getattr(self.module, self.function)
        text = textwrap.dedent(inspect.getsource(shipped))
        assert text.count(self.old) == 1, "the guard stands elsewhere by now"
        names: dict[str, object] = {}
        exec(  # noqa: S102 - the text is the shipped one but for a guard
            compile(text.replace(self.old, self.new), f"<{self.function}>", "exec"), vars(self.module), names
        )
        for name in [each for each in sys.modules if each.startswith("holdfast.")]:
            if getattr(sys.modules[name], self.function, None) is shipped:
                patch.setattr(sys.modules[name], self.function, names[self.function])


@dataclass(frozen=True)
class Mutant(Generic[B]):
    """Shipped functions without a guard.

    :param bounds: within which the fault shows.
    :param edits: several where the guard stands in more than one place.
    """

    name: str
    bounds: B
    edits: tuple[Edit, ...]

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        """Put them in the place of the shipped ones."""
        for edit in self.edits:
            edit.put_in(patch)


def without(name: str, bounds: B, module: ModuleType, function: str, old: str, new: str) -> Mutant[B]:
    """Return what lacks a guard that stands in one place."""
    return Mutant(name, bounds, (Edit(module, function, old, new),))


_ROT = Bounds(appends=1, trims=0, pauses=0, rots=1)
_AWAY = Bounds(appends=1, trims=1, pauses=1, rots=0)
_ROT_AND_TRIM = Bounds(appends=1, trims=1, pauses=0, rots=1)

MUTANTS = (
    without("the epoch of who asks", _ROT, replicas, "guard", "row.epoch != acting.epoch", "False"),
    without("whether who asks is lost", _ROT, replicas, "guard", "if row.is_lost", "if False"),
    without("whether who begins to act is lost", _ROT, replicas, "activate", "if row.is_lost", "if False"),
    without("a new epoch for a recovery", _ROT, recovery_claim, "claim", "row.epoch + 1)", "row.epoch)"),
    without(
        "that a recovery holds trimming back", _ROT_AND_TRIM,
        trimming, "move_start", "if not row.is_lost or row.recovers_from", "if not row.is_lost",
    ),
    without("that who is trimmed away is lost", _AWAY, trimming, "move_start", "is_lost=True", "is_lost=False"),
    without("that not all are lost", _AWAY, trimming, "move_start", "if not kept", "if False"),
    without("that who is active is waited for", _AWAY, trimming, "_new_start", "if row.is_active(now)]", "if False]"),
    without("that the log has no hole", _ROT, log, "_next_index", "c.head + 1", "c.head + 2"),
)  # fmt: skip
