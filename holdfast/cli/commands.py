"""Commands by name, each imported when it is asked for: what one of them needs does not slow down the others."""

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
    """Where a command or a group of commands is defined, and its line in the list of all.

    :param name: of the function, or of the `Typer` with the commands of the group.
    """

    module: str
    name: str
    help: str


COMMANDS = {
    "init": CommandEntry("init", "init", "Create an archive in an empty place."),
    "backup": CommandEntry(
        "backup",
        "backup",
        "Back up a database: all of it in one snapshot, or what has changed since the last backup.",
    ),
    "restore": CommandEntry(
        "restore", "restore", "Restore a database, or tables of it, and prove them equal to the archive."
    ),
    "query": CommandEntry("query", "query", "Query tables as of any restorable moment, without restoring them."),
    "points": CommandEntry(
        "points",
        "show_points",
        "List the moments that can be restored, the gaps between them, and what a restore gives of each table.",
    ),
    "mark": CommandEntry("mark", "mark", "Give this moment of a source a name, to restore it by (--at NAME)."),
    "protect": CommandEntry(
        "protect",
        "protect",
        "Run a command that changes a source, such as a migration, so that both its sides can be restored exactly.",
    ),
    "verify": CommandEntry(
        "verify", "verify", "Check that everything the commits name is there and is what was written."
    ),
    "copy": CommandEntry(
        "copy",
        "copy",
        "Copy an archive to another store, or bring an earlier copy up to date; killed, it goes on when run again.",
    ),
    "drill": CommandEntry(
        "drill",
        "drill",
        "Restore a random moment from nothing but the archive, compare, and check what must hold there.",
    ),
    "compact": CommandEntry(
        "compact", "compact", "Join small blocks of changes into few: every restore point stays what it is."
    ),
    "truncate": CommandEntry(
        "truncate",
        "truncate",
        "Remove the restore points that no rule and no hold keeps; 'holdfast vacuum' deletes their files later.",
    ),
    "vacuum": CommandEntry(
        "vacuum",
        "vacuum",
        "Delete files that nothing needs: those of removed blocks, and what killed backups have left.",
    ),
    "migrate": CommandEntry(
        "migrate", "migrate", "Lift an archive to a newer format; its restore points stay what they are."
    ),
    "status": CommandEntry("status", "status", "Say what an archive holds."),
    "doctor": CommandEntry(
        "doctor", "doctor", "Check that everything is here that backups and restores need, and say what to do."
    ),
    "hold": CommandEntry(
        "hold",
        "hold_app",
        "Restore points that stay whatever the rules of truncation say, until somebody takes the hold back.",
    ),
    "config": CommandEntry(
        "config", "config_app", "The configuration file, archives.yaml: its mistakes and its schema."
    ),
    "key": CommandEntry(
        "key", "key_app", "Keys of encrypted archives. Whoever has lost an archive's key has lost the archive."
    ),
    "locks": CommandEntry(
        "locks", "locks_app", "Who holds which lock, since when, and what to do about it. Works with Airflow down."
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
        "source", "source_app", "Is a database ready to be backed up, and what makes it so. Works with Airflow down."
    ),
}
"""In the order of their list. The words of each are repeated here so that the list needs none of the modules."""


@cache
def load(name: str) -> TyperCommand | TyperGroup:
    """Import a command, or a group of commands, and read its options."""
    place = COMMANDS[name]
    found: typer.Typer | Callable[..., None] = getattr(import_module(f"holdfast.cli.{place.module}"), place.name)
    app = typer.Typer()
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name=name)(found)
    command = get_group(app).commands[name]
    assert isinstance(command, (TyperCommand, TyperGroup))  # noqa: S101 - tells mypy what typer makes
    return command


class _Listed(TyperCommand):
    """A command as the list of all shows it; who asks for more is given the command itself."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Begin the command, of which this reads what is written behind its name."""
        return load(str(self.name)).make_context(*args, **settings)


class Commands(TyperGroup):
    """All commands, of which only those are imported that are asked for."""

    def __init__(self, **settings: Any) -> None:
        listed = {name: _Listed(name=name, help=place.help) for name, place in COMMANDS.items()}
        super().__init__(**{**settings, "commands": listed})
