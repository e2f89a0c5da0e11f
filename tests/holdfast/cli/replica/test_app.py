"""`holdfast replica` from one end to the other, by a store that is a server."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.core import TyperGroup
from typer.main import get_command

from holdfast.archive import Archive
from holdfast.cli.replica.app import replica_app
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log import schema
from holdfast.replication.log.store import ENVIRONMENT, PASSWORD, CoordinationStore
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand
from tests.support.replicas.replicated import Replicas, replica_rows
from tests.support.servers.postgres import create_database

pytestmark = pytest.mark.usefixtures("log_address")


@pytest.mark.service
def test_replicas_follow_a_log_in_postgresql(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.url(create_database(postgres).database)
    monkeypatch.setenv(ENVIRONMENT, url)
    monkeypatch.setenv(PASSWORD, postgres.password)
    assert holdfast("replica", "add", "near", filled.url).code == 0
    assert holdfast("replica", "add", "far", str(tmp_path / "far")).code == 0
    with CoordinationStore.open(url) as coordination:
        replicas = Replicas(tmp_path, coordination, Archive.open(filled).identity.id)
        replicas.back_up("far")
        count = coordination.run(lambda c: c.execute(sa.select(sa.func.count()).select_from(schema.entries)).scalar())
    assert count == 3
    done = holdfast("replica", "sync", "--all", "--store", url, "--json")
    assert [(each["replica"], each["entries"]) for each in done.value["replicas"]] == [("far", 0), ("near", 2)]
    assert replica_rows(holdfast)["near"]["entries_behind"] == 0
    assert holdfast("replica", "trim", "--min-keep", "0", "--json").value["removed"] == 3
    shown = holdfast("replica", "status")
    assert postgres.password not in shown.out + shown.err


def test_help_lists_what_is_needed_every_day_and_the_other_commands_work(holdfast: RunCommand) -> None:
    hidden = {"recover", "elect", "give-up", "rebuild-store", "forget", "aside"}
    group = get_command(replica_app)
    assert isinstance(group, TyperGroup)
    commands = group.commands
    assert {name for name, command in commands.items() if command.hidden} == hidden
    assert commands.keys() - hidden == {"add", "remove", "status", "repair", "sync", "trim"}
    for name in hidden:
        assert holdfast("replica", name, "--help").code == 0
