"""Sentences that report a finished operation: the last line of a command, and of a task's log.

A command reports its own time, `wall_s`; its job alone took less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.words import counted, human_size, named

if TYPE_CHECKING:
    from collections.abc import Mapping


def backup_sentence(result: Mapping[str, Any]) -> str:
    """Return the report of a backup: its contents, and its newest restore point."""
    seconds = result.get("wall_s", result.get("seconds"))
    speed = f", {seconds:.1f} s ({result['rows'] / seconds:,.0f} rows/s)" if seconds else ""
    is_changes = result["kind"] == "changes"
    what = counted(result["rows"], "change" if is_changes and not result.get("begun") else "row")
    if is_changes:
        of = f" of {counted(result['transactions'], 'transaction')}" if "transactions" in result else ""
        started = result.get("begun")
        what += f" (changes{of}, and tables that started over: {named(started)})" if started else of
    elif result.get("tables") is not None:
        what += f" of {counted(result['tables'], 'table')}"
    words = (
        f"commit {result['commit']}: {what} in {human_size(result['bytes'])}{speed}; "
        f"restorable to {result['restorable_to']}"
    )
    reached = result.get("quorum")
    return f"{words}; {', '.join(reached['replicas'])} have it" if reached else words


def restore_sentence(result: Mapping[str, Any]) -> str:
    """Return the report of a restore: its contents, and the differences from the backup."""
    seconds = result.get("wall_s", result["seconds"])
    not_restored, stale = len(result.get("not_restored", ())), result.get("stale", ())
    empty = [table["table"] for table in stale if not table["as_of"]]
    older = len(stale) - len(empty)
    exceptions = {
        "values that the schema cannot hold": result.get("lost"),
        "objects known only from the log": result.get("log_only"),
        "names that are not proved": result.get("unproved_names"),
        "tables restored without rows": empty,
    }
    source = f" {result['source']}" if result.get("source") else ""
    return (
        f"restored{source} to {result['restored_to']} (commit {result['commit']}): {counted(result['rows'], 'row')} "
        f"of {counted(result['tables'], 'table')} in {seconds:.1f} s, equal to the archive"
        + "".join(f", except {what}: {named(names)}" for what, names in exceptions.items() if names)
        + (f"; not restored: {counted(not_restored, 'object')}, listed above" if not_restored else "")
        + (f"; {counted(older, 'table has', 'tables have')} older rows, listed above" if older else "")
    )
