"""What goes wrong without each guard. ``python -m tests.specs.counterexamples`` writes it down anew."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from itertools import groupby

from tests.support.specs.tla import SPECS, Outcome, check

KEPT = SPECS / "counterexamples.md"


@dataclass(frozen=True)
class Guard:
    """A guard of the protocol.

    :param spec: the module it is in
    :param config: the model that fails without it
    :param breaks: what does not hold then
    :param constants: what else differs, so that the counter-example says no more than it must
    :param besides: a guard that is left out too, because either of the two is enough
    """

    name: str
    config: str
    breaks: str
    constants: dict[str, str] = field(default_factory=dict)
    _: KW_ONLY
    spec: str = "PutAndVerify"
    besides: str | None = None

    def check(self) -> Outcome:
        """Check the model without the guard."""
        removed = ", ".join(f'"{name}"' for name in (self.name, self.besides) if name)
        return check(self.config, self.constants | {"Removed": f"{{{removed}}}"}, spec=self.spec)


_ALONE = {"Txns": "{1}"}
_TWO = {"Replicas": "{1, 2}"}
_ONE = {"Readers": "{1}"}

_LOCKS = (
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

_TRIMMING = (
    Guard("a lease that is over is not renewed", "LogTrimming", "NotInVain", spec="LogTrimming"),
    Guard("who recovers holds trimming back", "LogTrimming", "NotInVain", spec="LogTrimming"),
    Guard("nobody is waited for beyond MaxKeep", "OneStaysAway", "IsLogCleared", spec="LogTrimming"),
    Guard("nobody was activated since trimming looked", "LogTrimming", "ValidLogPointer", spec="LogTrimming"),
    Guard("never are all replicas lost", "LogTrimming", "NotAllLost", spec="LogTrimming"),
    Guard("who needed a removed entry is lost at once", "LogTrimming", "ValidLogPointer", spec="LogTrimming"),
    Guard("a recovery begins with its source's pointer", "OneStaysAway", "NotInVain", spec="LogTrimming"),
    Guard("the source is not lost", "OneStaysAway", "NotInVain", spec="LogTrimming"),
    Guard(
        "the log starts at or below the pointer",
        "AtOnce",
        "ValidLogPointer",
        spec="LogTrimming",
        besides="a lease that is over is not renewed",
    ),
    Guard("the pointer is set in one's own epoch", "LogTrimming", "NotInVain", spec="LogTrimming"),
    Guard("pointer and blocks are of one commit", "OneStaysAway", "Complete", spec="LogTrimming"),
    Guard("`recovered` answers one's own `recovering`", "LogTrimming", "Complete", spec="LogTrimming"),
    Guard("is_lost is cleared in one's own epoch", "LogTrimming", "Complete", spec="LogTrimming"),
    Guard("is_lost is cleared under one's own lease", "LogTrimming", "ValidLogPointer", spec="LogTrimming"),
)

_REPLICATION = (
    Guard("one's own entries wait for their turn", "Replication", "NothingSkipped", _TWO, spec="Replication"),
    Guard("each entry is committed once", "Replication", "Once", _TWO, spec="Replication"),
    Guard(
        "an index is taken in the append's transaction",
        "Replication",
        "EquivalentReplicas",
        _TWO | {"Merges": "0"},
        spec="Replication",
    ),
    Guard("the result exists before its entry", "Replication", "EquivalentReplicas", _TWO, spec="Replication"),
    Guard("only the leader of this term appends", "TwoLeaders", "Fenced", spec="Replication"),
    Guard("the inputs are there when the entry is appended", "DroppedInputs", "Executable", spec="Replication"),
)

_QUORUM = (
    Guard("one pending quorum per source", "Retry", "Chain", _TWO, spec="Quorum"),
    Guard("what has succeeded does not fail", "OverlappingReads", "ReadAfterWrite", _ONE, spec="Quorum"),
    Guard("a failure puts the end position back", "Retry", "Chain", _TWO, spec="Quorum"),
    Guard("a failure releases the dedup id", "Retry", "Progress", _TWO, spec="Quorum"),
    Guard("a failure appends a drop", "Retry", "Converges", _TWO, spec="Quorum"),
    Guard("a failure moves no pointer", "SequentialReads", "ReadAfterWrite", {"Failures": "1"}, spec="Quorum"),
    Guard("who joins too late changes nothing", "OverlappingReads", "ReadAfterWrite", _ONE, spec="Quorum"),
    Guard("success is told once a quorum has executed it", "LostVoters", "Known", spec="Quorum"),
    Guard("the wait for a quorum counts votes of their own epoch", "LostVoters", "QuorumHeld", spec="Quorum"),
    Guard("who is lost does not count", "LostVoters", "QuorumHeld", spec="Quorum"),
    Guard("the source of a recovery has all that succeeded", "LostVoters", "Durable", spec="Quorum"),
    Guard("what counts is where the opened commit is", "SequentialReads", "ReadAfterWrite", spec="Quorum"),
    Guard("only who is past all that succeeded answers", "SequentialReads", "ReadAfterWrite", spec="Quorum"),
    Guard("what is not decided or failed is hidden", "OverlappingReads", "MonotonicRead", _ONE, spec="Quorum"),
    Guard("the store is asked by a linearizable read", "StaleRead", "ReadAfterWrite", spec="Quorum"),
)

_OLD_STORE = (
    Guard("a sync asks", "TwoCopies", "OneLog", spec="OldStore"),
    Guard("another entry at its index contradicts", "TwoCopies", "OneLog", spec="OldStore"),
    Guard("what is set aside contradicts no entry", "TwoCopies", "Mended", spec="OldStore"),
    Guard("lost replicas are asked, too", "OldPlain", "OneLog", spec="OldStore"),
    Guard("the source has executed what the lost one has", "OldPlain", "Kept", spec="OldStore"),
    Guard("the ids of trimmed entries stay known", "Away", "Kept", spec="OldStore"),
    Guard("success is an entry", "OldStore", "ReadAfterWrite", spec="OldStore"),
    Guard("nobody is told before a quorum has executed the success", "OldStore", "ReadAfterWrite", spec="OldStore"),
    Guard("who passed a failed entry says so", "PassedFailure", "ReadAfterWrite", spec="OldStore"),
    Guard("a sequential read asks", "PassedFailure", "ReadAfterWrite", {"Failures": "0"}, spec="OldStore"),
    Guard("a sequential read needs n - q + 1", "SomeUnread", "ReadAfterWrite", spec="OldStore"),
    Guard("an addition is an entry", "NewMember", "OneLog", {"Plain": "2"}, spec="OldStore"),
    Guard("the source has executed the addition of whom it is copied to", "NewMember", "OneLog", spec="OldStore"),
    Guard("a new replica that is recovered is an entry again", "AddedMember", "ReadAfterWrite", spec="OldStore"),
    Guard("a read waits for members that do not count yet", "AddedMember", "ReadAfterWrite", spec="OldStore"),
)

_ONE_VOIDS = {"Voiders": "{1}"}

_VOID_NUMBERS = (
    Guard("a late writer looks", "TwoVoiders", "Kept", _ONE_VOIDS, spec="VoidNumbers"),
    Guard("a late writer takes the next number", "TwoVoiders", "Kept", _ONE_VOIDS, spec="VoidNumbers"),
    Guard("what is voided is empty", "TwoVoiders", "Kept", _ONE_VOIDS, spec="VoidNumbers"),
    Guard("what is voided is old", "TwoVoiders", "Kept", _ONE_VOIDS, spec="VoidNumbers"),
    Guard("two listings", "TwoVoiders", "Kept", _ONE_VOIDS, spec="VoidNumbers"),
    Guard("the next number is created if absent", "TwoVoiders", "Kept", _ONE_VOIDS, spec="VoidNumbers"),
    Guard("the newest decides first", "TwoVoiders", "Kept", spec="VoidNumbers"),
)

_LAST_SEEN = (
    Guard("a number is compared with its commit", "SeenByTwo", "Noticed", spec="LastSeen"),
    Guard("an index is compared with its entry", "SeenFork", "Noticed", spec="LastSeen"),
    Guard("who accepts remembers what was accepted", "LastSeen", "Noticed", spec="LastSeen"),
    Guard("an acceptance that was seen excuses nothing", "LastSeen", "Noticed", spec="LastSeen"),
)

GUARDS = _LOCKS + _TRIMMING + _REPLICATION + _QUORUM + _OLD_STORE + _VOID_NUMBERS + _LAST_SEEN

_HEAD = """# What goes wrong without each guard

Written by `python -m tests.specs.counterexamples`; a test compares it with what the model checker finds.
The counter-example of an invariant, or of what each step must do, is a shortest one; that of progress is a loop that
never ends, told by what its states look like.

# Locks

`PutAndVerify.tla`. A loop is told by where the clients are.
The number is the transaction that takes the step, or that the reaper turns to.
"""

_TITLES = {
    "LogTrimming": """
# Trimming and recovery

`LogTrimming.tla`. The number is the replica that takes the step.
""",
    "Replication": """
# The log

`Replication.tla`. The number is the replica that takes the step, where what it does tells which.
""",
    "Quorum": """
# Quorums and sequential reads

`Quorum.tla`. The number is the replica that takes the step; of a failure, the entry.
""",
    "OldStore": """
# A store that is put back

`OldStore.tla`. The number is the replica that takes the step, or that is added, removed or lost.
""",
    "VoidNumbers": """
# Numbers without a commit

`VoidNumbers.tla`. The number is the writer or the voider that takes the step; of `Arrive` and `Tick`, the commit's.
""",
    "LastSeen": """
# Archives that were put back

`LastSeen.tla`. The number is the machine that takes the step; 0: one without a memory.
""",
}


def render(guard: Guard, found: Outcome) -> str:
    """One guard's paragraph."""
    others = "".join(f", {name} = {value}" for name, value in guard.constants.items())
    both = f', without "{guard.besides}" either' if guard.besides else ""
    text = f"\n## {guard.name}\n\n`{guard.config}`{others}{both}: {found.violated} fails"
    if found.status == "liveness_violation":
        return f"{text} in a loop: {', '.join(found.rounds())}.\n"
    return f"{text} after {len(found.steps())} steps: {', '.join(found.steps())}.\n"


def main() -> None:
    """Write the file."""
    parts = [_HEAD]
    for spec, guards in groupby(GUARDS, lambda guard: guard.spec):
        parts += [_TITLES.get(spec, ""), *(render(guard, guard.check()) for guard in guards)]
    KEPT.write_text("".join(parts))


if __name__ == "__main__":
    main()
