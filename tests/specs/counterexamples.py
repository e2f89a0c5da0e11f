"""What goes wrong without each guard. ``python -m tests.specs.counterexamples`` writes it down anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.tla import SPECS, Outcome, check

KEPT = SPECS / "counterexamples.md"


@dataclass(frozen=True)
class Guard:
    """A guard of the protocol.

    :param config: the model that fails without it
    :param breaks: what does not hold then
    :param constants: what else differs, so that the counter-example says no more than it must
    """

    name: str
    config: str
    breaks: str
    constants: dict[str, str] = field(default_factory=dict)

    def check(self) -> Outcome:
        """Check the model without the guard."""
        return check(self.config, self.constants | {"Removed": f'{{"{self.name}"}}'})


_ALONE = {"Txns": "{1}"}

GUARDS = (
    Guard("the second look", "Mutex", "MutualExclusion"),
    Guard("readers look for writers", "ReadersWriters", "MutualExclusion"),
    Guard("readers give way to intents", "ReadersWriters", "Progress"),
    Guard("the winner of a tie keeps its intent", "Mutex", "Progress", {"Txns": "{1, 2}"}),
    Guard("the winner of a tie looks again", "Mutex", "MutualExclusion"),
    Guard("intents sort before targets", "ReadersWriters", "MutualExclusion"),
    Guard("two listings where one is unordered", "UnorderedListing", "MutualExclusion"),
    Guard("the fence", "CrashAndReap", "LeaseHolds"),
    Guard("the fence is after the target", "LatePut", "LeaseHolds", _ALONE),
    Guard("DEAD by who gives up", "LatePut", "NothingRevived", _ALONE),
    Guard("DEAD by who releases during a renewal", "LatePut", "NothingRevived", _ALONE),
    Guard("DEAD by who ends another's lock", "LatePut", "MutualExclusion"),
    Guard("DEAD by the reaper", "LatePut", "Undisturbed"),
    Guard("a holder heeds its DEAD", "LatePut", "MutualExclusion"),
    Guard("trust counts from what was acknowledged", "LatePut", "LeaseHolds", _ALONE),
    Guard("trust counts from the start", "LatePut", "LeaseHolds", _ALONE),
    Guard("a lease that is over stays over", "LatePut", "OverForGood", _ALONE),
    Guard("nobody is reaped before its lease is over", "CrashAndReap", "LeaseHolds"),
    Guard("no intent is reaped while it may become a target", "CrashAndReap", "LeaseHolds"),
    Guard("no DEAD where the target stands", "LatePut", "LeaseHolds", _ALONE),
)

_HEAD = """# What goes wrong without each guard

Written by `python -m tests.specs.counterexamples`; a test compares it with what the model checker finds.
The counter-example of an invariant is a shortest one; that of progress is a loop that never ends, told
by where the clients are.
The number is the transaction that takes the step, or that the reaper turns to.
"""


def render(guard: Guard, found: Outcome) -> str:
    """One guard's paragraph."""
    others = "".join(f", {name} = {value}" for name, value in guard.constants.items())
    text = f"\n## {guard.name}\n\n`{guard.config}`{others}: {found.violated} fails"
    if found.status != "invariant_violation":
        return f"{text} in a loop: {', '.join(found.rounds())}.\n"
    return f"{text} after {len(found.steps())} steps: {', '.join(found.steps())}.\n"


def main() -> None:
    """Write the file."""
    KEPT.write_text(_HEAD + "".join(render(guard, guard.check()) for guard in GUARDS))


if __name__ == "__main__":
    main()
