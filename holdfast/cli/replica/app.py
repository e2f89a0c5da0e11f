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
replica_app.command()(add)
replica_app.command()(status)
replica_app.command()(repair)
replica_app.command()(sync)
replica_app.command()(trim)
replica_app.command()(recover)
replica_app.command()(elect)
replica_app.command()(give_up)
replica_app.command()(rebuild_store)
replica_app.command()(remove)
replica_app.command()(forget)
replica_app.add_typer(aside_app)
