"""Commands by name, each imported only when it is used.

The imports of one command do not slow down the others.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

if TYPE_CHECKING:
    from collections.abc import Callable


class CommandEntry(NamedTuple):
    """The module of a command, its function there (of a group, its `Typer`), and its line in the list."""

    module: str
    name: str
    help: str


COMMANDS = {
    "init": CommandEntry("init", "init", "Create an archive in an empty place."),
    "backup": CommandEntry(
        "backup",
        "backup",
        "Back up a database: all of it in one snapshot, or the changes since the last backup.",
    ),
    "restore": CommandEntry(
        "restore", "restore", "Restore a database, or tables of it, and prove them equal to the archive."
    ),
    "query": CommandEntry("query", "query", "Query tables at any recovery target, without restoring them."),
    "points": CommandEntry(
        "points",
        "show_points",
        "List the restore points, the gaps between them, and the state of each table in a restore.",
    ),
    "mark": CommandEntry("mark", "mark", "Name the present position of a source, as a recovery target (--at NAME)."),
    "protect": CommandEntry(
        "protect",
        "protect",
        "Run a command that changes a source, such as a migration, so that both its sides can be restored exactly.",
    ),
    "verify": CommandEntry(
        "maintenance.verify", "verify", "Check that all files named by the commits are there and unchanged."
    ),
    "copy": CommandEntry(
        "maintenance.copy",
        "copy",
        "Copy an archive to another store, or bring an earlier copy up to date; killed, it goes on when run again.",
    ),
    "drill": CommandEntry(
        "drill",
        "drill",
        "Restore a random restore point from the archive alone, compare it, and check its assertions.",
    ),
    "compact": CommandEntry(
        "maintenance.compact", "compact", "Join small blocks of changes into few; all restore points are kept."
    ),
    "truncate": CommandEntry(
        "maintenance.truncate",
        "truncate",
        "Remove the restore points that no rule and no hold keeps; 'holdfast vacuum' deletes their files later.",
    ),
    "vacuum": CommandEntry(
        "maintenance.vacuum",
        "vacuum",
        "Delete files that nothing needs: those of removed blocks, and leftovers of killed backups.",
    ),
    "migrate": CommandEntry(
        "maintenance.migrate", "migrate", "Migrate an archive to a newer format; its restore points are kept."
    ),
    "status": CommandEntry("status", "status", "Print the contents of an archive."),
    "metrics": CommandEntry(
        "metrics",
        "metrics",
        "Print metrics of archives, their sources' servers and their replicas, for Prometheus.",
    ),
    "doctor": CommandEntry(
        "doctor", "doctor", "Check everything that backups and restores need, and print a remedy for each failure."
    ),
    "hold": CommandEntry(
        "hold",
        "hold_app",
        "Restore points that no truncation removes until the hold is removed.",
    ),
    "config": CommandEntry(
        "config", "config_app", "The configuration file, archives.yaml: its mistakes and its schema."
    ),
    "key": CommandEntry("trust.key", "key_app", "Keys of encrypted archives. An archive whose key is lost is lost."),
    "signing": CommandEntry(
        "trust.signing",
        "signing_app",
        "Signatures of all that is in an archive, so that write access to the store is not enough to forge it.",
    ),
    "accept": CommandEntry(
        "trust.accept",
        "accept",
        "Accept that an archive was put back to an older state, or exchanged, after this machine saw it.",
    ),
    "locks": CommandEntry(
        "locks", "locks_app", "The locks, their holders and what to do about them. Works with Airflow down."
    ),
    "probe": CommandEntry(
        "probe",
        "probe_store",
        "Measure whether a store is safe, also before there is an archive; writes and removes about 300 MB.",
    ),
    "replica": CommandEntry(
        "replica.app",
        "replica_app",
        "An archive at several places: replicas that follow one update log, which a coordination store keeps.",
    ),
    "source": CommandEntry(
        "source", "source_app", "Check that a database is ready for backups, and set it up. Works with Airflow down."
    ),
}
"""In the order of their list, which repeats the words of each so that it needs none of the modules."""


@cache
def load(name: str) -> TyperCommand | TyperGroup:
    """Import a command, or a group of commands, and read its options."""
    entry = COMMANDS[name]
    target: typer.Typer | Callable[..., None] = getattr(import_module(f"holdfast.cli.{entry.module}"), entry.name)
    app = typer.Typer()
    if isinstance(target, typer.Typer):
        app.add_typer(target, name=name)
    else:
        app.command(name=name)(target)
    command = get_group(app).commands[name]
    assert isinstance(command, (TyperCommand, TyperGroup))  # noqa: S101 - tells mypy what typer makes
    return command


class _Listed(TyperCommand):
    """A command's placeholder in the list of all; its use loads the command itself."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Load the command itself and return its context."""
        return load(str(self.name)).make_context(*args, **settings)


class Commands(TyperGroup):
    """The group of all commands, each imported only when it is used."""

    def __init__(self, **settings: Any) -> None:
        listed = {name: _Listed(name=name, help=entry.help) for name, entry in COMMANDS.items()}
        super().__init__(**{**settings, "commands": listed})
