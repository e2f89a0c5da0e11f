"""The report of a run: counts, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bench.support.machine import host
from bench.support.report import table
from soak.checks.violation import all_violations
from soak.journal import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from soak.conductor import Outcome

NAME = "soak"

BEGIN, END = "<!-- soak -->", "<!-- /soak -->"
"""What is between them on a page are the counts of a run."""


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return all that is counted."""
    operations: dict[str, Counter[str]] = defaultdict(Counter)
    killed = {event["id"] for event in named(outcome.events, "killed") if event["command"]}
    for event in named(outcome.events, "end"):
        ended = "killed" if event["id"] in killed and event["code"] < 0 else str(event["code"])
        operations[event["kind"]][ended] += 1
    faults = Counter(event["kind"] for event in named(outcome.events, "fault"))
    turns = named(outcome.events, "turn")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "seed": outcome.seed,
        "seconds": round(outcome.seconds),
        "machine": host(),
        "operations": {kind: dict(sorted(codes.items())) for kind, codes in sorted(operations.items())},
        "transactions": len(turns),
        "faults": dict(sorted(faults.items())),
        "requests": outcome.requests,
        "failed_requests": dict(sorted(outcome.failed_requests.items())),
        "invariants": [
            {
                "invariant": verdict.invariant,
                "looked": verdict.looked,
                "passed_over": verdict.passed_over,
                "violations": len(verdict.violations),
            }
            for verdict in outcome.verdicts
        ],
        "failures": [
            {"seed": outcome.seed, "invariant": each.invariant, "words": each.words}
            for each in all_violations(outcome.verdicts)
        ],
        "skipped": outcome.skipped,
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Return the report for people."""
    return "\n".join(_lines(found)) + "\n"


def section(found: Mapping[str, Any]) -> str:
    """Return what a page says of a run: all counts, without a headline and without the violations."""
    machine = found["machine"]
    lines = [
        _summary(found),
        "",
        *invariant_rows(found),
        "",
        *operation_rows(found),
        "",
        *fault_rows(found),
        "",
        f"On {machine['Processor']}, {machine['Memory']} of memory, beside other work.",
        *(f"Left out there: {each}." for each in found["skipped"]),
    ]
    return "\n".join(lines) + "\n"


def write_page(found: Mapping[str, Any], page: Path) -> None:
    """Put a run's counts between the marks of a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{section(found)}{END}{after}")


def _summary(found: Mapping[str, Any]) -> str:
    many = sum(sum(codes.values()) for codes in found["operations"].values())
    return (
        f"{found['date']}, seed {found['seed']}, {found['seconds'] / 60:.0f} minutes: {many:,} operations, "
        f"{sum(found['faults'].values()):,} faults, {found['transactions']:,} transactions on the sources, "
        f"{found['requests']:,} requests to the store, {len(found['failures'])} violations."
    )


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# Everything at once", "", _summary(found))
    yield from ("", "## What had to hold", "")
    yield from invariant_rows(found)
    yield from ("", "## Operations, by exit code", "")
    yield from operation_rows(found)
    yield from ("", "## Faults", "")
    yield from fault_rows(found)
    if found["failures"]:
        yield from ("", "## Violations", "")
        yield from (f"- seed {each['seed']}, {each['invariant']}: {each['words']}" for each in found["failures"])
    if found["skipped"]:
        yield from ("", "## Left out", "", *(f"- {each}" for each in found["skipped"]))
    yield from ("", "## Where", "")
    yield from table(["", ""], [[name, value] for name, value in found["machine"].items()])


def invariant_rows(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of what had to hold."""
    rows = [
        [each["invariant"], f"{each['looked']:,}", f"{each['passed_over']:,}", f"{each['violations']:,}"]
        for each in found["invariants"]
    ]
    yield from table(["promise", "judged", "could not be judged", "broken"], rows)


def operation_rows(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of operations."""
    codes = sorted({code for each in found["operations"].values() for code in each})
    rows = [[kind, *(str(each.get(code, "")) for code in codes)] for kind, each in found["operations"].items()]
    yield from table(["operation", *codes], rows)


def fault_rows(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of faults."""
    rows = [[kind, f"{times:,}"] for kind, times in found["faults"].items()]
    rows += [[f"a request of the store: {how}", f"{times:,}"] for how, times in found["failed_requests"].items()]
    yield from table(["fault", "times"], rows)


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Write both forms of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / f"{NAME}.md").write_text(markdown(found))
