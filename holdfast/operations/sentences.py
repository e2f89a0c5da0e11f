"""Sentences that report a finished operation: the last line of the command, and of a task's log.

A command's has the time that the command took, `wall_s`: that of its job alone is shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.words import human_size, named

if TYPE_CHECKING:
    from collections.abc import Mapping


def backup_sentence(result: Mapping[str, Any]) -> str:
    """Return the report of a backup: its contents, and its newest restore point."""
    seconds = result.get("wall_s", result.get("seconds"))
    speed = f", {seconds:.1f} s ({result['rows'] / seconds:,.0f} rows/s)" if seconds else ""
    what = f"rows of {result['tables']} tables" if result.get("tables") is not None else "rows"
    if result["kind"] == "changes":
        what = f"changes of {result['transactions']:,} transactions" if "transactions" in result else "changes"
        if result.get("begun"):
            what = f"rows ({what}, and tables begun anew: {named(result['begun'])})"
    words = (
        f"commit {result['commit']}: {result['rows']:,} {what} in {human_size(result['bytes'])}{speed}; "
        f"restorable to {result['restorable_to']}"
    )
    reached = result.get("quorum")
    return f"{words}; {', '.join(reached['replicas'])} have it" if reached else words


def restore_sentence(result: Mapping[str, Any]) -> str:
    """Return the report of a restore: its contents, and the differences from the backup."""
    seconds = result.get("wall_s", result["seconds"])
    left, stale = len(result.get("not_restored", ())), len(result.get("stale", ()))
    empty = [each["table"] for each in result.get("stale", ()) if not each["as_of"]]
    unproved, lost = result.get("unproved_names", ()), result.get("lost", ())
    log_only = result.get("log_only", ())
    source = f" {result['source']}" if result.get("source") else ""
    return (
        f"restored{source} to {result['restored_to']} (commit {result['commit']}): "
        f"{result['rows']:,} rows of {result['tables']} tables in {seconds:.1f} s, equal to the archive"
        + (f", but for what the schema has no place for: {named(lost)}" if lost else "")
        + (f", but for what only the log tells of: {named(log_only)}" if log_only else "")
        + (f", but for names that are not proved: {named(unproved)}" if unproved else "")
        + (f", but for what is restored without rows: {named(empty)}" if empty else "")
        + (f"; not restored: {left} objects, named above" if left else "")
        + (f"; older than that: {stale - len(empty)} tables, named above" if stale > len(empty) else "")
    )
