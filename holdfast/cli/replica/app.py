"""`holdfast replica`: replicas of an archive that follow one update log. Works with Airflow down."""

from __future__ import annotations

import typer

from holdfast.cli.replica.aside import aside_app
from holdfast.cli.replica.giving_up import give_up
from holdfast.cli.replica.members import add, elect, forget, remove
from holdfast.cli.replica.rebuilding import rebuild_store
from holdfast.cli.replica.repair import repair
from holdfast.cli.replica.status import status
from holdfast.cli.replica.upkeep import recover, sync, trim

replica_app = typer.Typer(
    name="replica",
    help="An archive at several places: replicas that follow one update log, which a coordination store keeps.",
    no_args_is_help=True,
)
for command in (add, remove, status, repair, sync, trim):
    replica_app.command()(command)
# `repair` names these where they are needed.
for command in (recover, elect, give_up, rebuild_store, forget):
    replica_app.command(hidden=True)(command)
replica_app.add_typer(aside_app, hidden=True)
