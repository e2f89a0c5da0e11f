"""The transactions of the update log with one guard taken out of each: what explores them must find a fault."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType

import pytest

from holdfast.replication import log, recovery, replicas, trimming
from tests.support.log_explorer import Bounds

_MODULES = (replicas, log, trimming, recovery)


@dataclass(frozen=True)
class Mutant:
    """A function with a piece of its text replaced.

    :param bounds: within which the fault shows.
    """

    name: str
    module: ModuleType
    function: str
    old: str
    new: str
    bounds: Bounds

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        """Put it in the place of the shipped function, wherever that was imported."""
        shipped = getattr(self.module, self.function)
        text = textwrap.dedent(inspect.getsource(shipped))
        assert text.count(self.old) == 1, "the guard stands elsewhere by now"
        names: dict[str, object] = {}
        exec(  # noqa: S102 - the text is the shipped one but for a guard
            compile(text.replace(self.old, self.new), f"<{self.name}>", "exec"), vars(self.module), names
        )
        for module in _MODULES:
            if getattr(module, self.function, None) is shipped:
                patch.setattr(module, self.function, names[self.function])


_ROT = Bounds(appends=1, trims=0, pauses=0, rots=1)
_AWAY = Bounds(appends=1, trims=1, pauses=1, rots=0)

MUTANTS = (
    Mutant("the epoch of who asks", replicas, "guard", "row.epoch != acting.epoch", "False", _ROT),
    Mutant("whether who asks is lost", replicas, "guard", "if row.is_lost", "if False", _ROT),
    Mutant("whether who begins to act is lost", replicas, "activate", "if row.is_lost", "if False", _ROT),
    Mutant("a new epoch for a recovery", recovery, "begin", "row.epoch + 1)", "row.epoch)", _ROT),
    Mutant(
        "that a recovery holds trimming back",
        trimming,
        "move_start",
        "if not row.is_lost or row.recovers_from",
        "if not row.is_lost",
        Bounds(appends=1, trims=1, pauses=0, rots=1),
    ),
    Mutant("that who is trimmed away is lost", trimming, "move_start", "is_lost=True", "is_lost=False", _AWAY),
    Mutant("that not all are lost", trimming, "move_start", "if not kept", "if False", _AWAY),
    Mutant("that who is active is waited for", trimming, "_new_start", "if row.is_active(now)]", "if False]", _AWAY),
)
