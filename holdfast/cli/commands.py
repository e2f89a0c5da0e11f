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
    """The line of a command in the list, and its module, if that has another name.

    The module has a function of the command's name, or for a group of commands a `Typer` called `NAME_app`.

    :param application: that its job runs inline, as a rule.
    """

    help: str
    module: str = ""
    application: str = ""


COMMANDS = {
    "init": CommandEntry("Create an archive in an empty place."),
    "backup": CommandEntry(
        "Back up a database: all of it in one snapshot, or the changes since the last backup.", application="backup"
    ),
    "restore": CommandEntry(
        "Restore a database, or tables of it, and prove them equal to the archive.", application="restore"
    ),
    "query": CommandEntry("Query tables at any recovery target, without restoring them."),
    "points": CommandEntry("List the restore points, the gaps between them, and the state of each table in a restore."),
    "mark": CommandEntry("Name the present position of a source, as a recovery target (--at NAME)."),
    "protect": CommandEntry(
        "Run a command that changes a source, such as a migration, so that both its sides can be restored exactly."
    ),
    "verify": CommandEntry("Check that all files named by the commits are there and unchanged.", "maintenance.verify"),
    "copy": CommandEntry(
        "Copy an archive to another store, or bring an earlier copy up to date; run it again after a kill.",
        "maintenance.copy",
    ),
    "drill": CommandEntry(
        "Restore a random restore point from the archive alone, compare it, and check its assertions."
    ),
    "compact": CommandEntry(
        "Join small blocks of changes into few; all restore points are kept.", "maintenance.compact", "compaction"
    ),
    "truncate": CommandEntry(
        "Remove the restore points that no rule and no hold keeps; 'holdfast vacuum' deletes their files later.",
        "maintenance.truncate",
        "truncation",
    ),
    "vacuum": CommandEntry(
        "Delete unneeded files: those of removed blocks, and of killed backups.", "maintenance.vacuum", "vacuum"
    ),
    "migrate": CommandEntry(
        "Migrate an archive to a newer format; its restore points are kept.", "maintenance.migrate"
    ),
    "status": CommandEntry("Print the contents of an archive."),
    "metrics": CommandEntry("Print metrics of archives, their sources' servers and their replicas, for Prometheus."),
    "doctor": CommandEntry("Check everything that backups and restores need, and print a remedy for each failure."),
    "hold": CommandEntry("Restore points that no truncation removes until the hold is removed."),
    "config": CommandEntry("The configuration file, archives.yaml: its mistakes and its schema."),
    "key": CommandEntry("Keys of encrypted archives. An archive whose key is lost is lost.", "trust.key"),
    "signing": CommandEntry(
        "Signatures of all that is in an archive, so that write access to the store is not enough to forge it.",
        "trust.signing",
    ),
    "accept": CommandEntry(
        "Accept that an archive was put back to an older state, or exchanged, after this machine saw it.",
        "trust.accept",
    ),
    "locks": CommandEntry("The locks, their holders and what to do about them. Works with Airflow down."),
    "probe": CommandEntry(
        "Measure whether a store is safe, also before there is an archive; writes and removes about 300 MB."
    ),
    "replica": CommandEntry(
        "An archive at several places: replicas that follow one update log, which a coordination store keeps.",
        "replica.app",
    ),
    "source": CommandEntry("Check that a database is ready for backups, and set it up. Works with Airflow down."),
}
"""In the order of their list, which repeats the words of each so that it needs none of the modules."""


@cache
def load(name: str) -> TyperCommand | TyperGroup:
    """Import a command, or a group of commands, and read its options."""
    module = import_module(f"holdfast.cli.{COMMANDS[name].module or name}")
    target: typer.Typer | Callable[..., None] = getattr(module, f"{name}_app", None) or getattr(module, name)
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

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **settings: Any) -> Any:
        """Load the command itself and return its context."""
        application = COMMANDS[str(self.name)].application
        if application and args and not {"--help", "-h"} & {*args}:
            ready_process.begin(application)
        return load(str(self.name)).make_context(info_name, args, *more, **settings)


class Commands(TyperGroup):
    """The group of all commands, each imported only when it is used."""

    def __init__(self, **settings: Any) -> None:
        listed = {name: _Listed(name=name, help=entry.help) for name, entry in COMMANDS.items()}
        super().__init__(**{**settings, "commands": listed})
