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

from holdfast.operations import ready_process

if TYPE_CHECKING:
    from collections.abc import Callable


class CommandEntry(NamedTuple):
    """The location of a command or a group of commands, and its line in the list of all.

    :param name: of the function, or of the `Typer` with the commands of the group.
    :param application: that its job runs inline, as a rule.
    """

    module: str
    name: str
    help: str
    application: str = ""


COMMANDS = {
    "init": CommandEntry("init", "init", "Create an archive in an empty place."),
    "backup": CommandEntry(
        "backup",
        "backup",
        "Back up a database: all of it in one snapshot, or the changes since the last backup.",
        "backup",
    ),
    "restore": CommandEntry(
        "restore", "restore", "Restore a database, or tables of it, and prove them equal to the archive.", "restore"
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
        "maintenance.compact",
        "compact",
        "Join small blocks of changes into few; all restore points are kept.",
        "compaction",
    ),
    "truncate": CommandEntry(
        "maintenance.truncate",
        "truncate",
        "Remove the restore points that no rule and no hold keeps; 'holdfast vacuum' deletes their files later.",
        "truncation",
    ),
    "vacuum": CommandEntry(
        "maintenance.vacuum",
        "vacuum",
        "Delete files that nothing needs: those of removed blocks, and leftovers of killed backups.",
        "vacuum",
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
        "Restore points that stay whatever the rules of truncation say, until somebody takes the hold back.",
    ),
    "config": CommandEntry(
        "config", "config_app", "The configuration file, archives.yaml: its mistakes and its schema."
    ),
    "key": CommandEntry(
        "trust.key", "key_app", "Keys of encrypted archives. Whoever has lost an archive's key has lost the archive."
    ),
    "signing": CommandEntry(
        "trust.signing",
        "signing_app",
        "Signatures of all that is in an archive: who may write to the store forges nothing in it.",
    ),
    "accept": CommandEntry(
        "trust.accept",
        "accept",
        "Accept that an archive was put back to an older state, or exchanged, after this machine saw it.",
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
    """A command's placeholder in the list of all; its use loads the command itself."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **settings: Any) -> Any:
        """Load the command itself and return its context."""
        application = COMMANDS[str(self.name)].application
        if application and args and not {"--help", "-h"} & {*args}:
            ready_process.begin(application)
        return load(str(self.name)).make_context(info_name, args, *more, **settings)


class Commands(TyperGroup):
    """The group of all commands, each imported only when it is used."""

    def __init__(self, **settings: Any) -> None:
        listed = {name: _Listed(name=name, help=place.help) for name, place in COMMANDS.items()}
        super().__init__(**{**settings, "commands": listed})
