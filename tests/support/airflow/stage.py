"""An Airflow, the demo's, with archives and DAGs of other people: starting one takes longer than most of its tests.

The archive `trio` has, as processes, what docker-compose.yaml starts: three replicas in buckets, a quorum of two,
Spark's master with two workers, a coordination store in PostgreSQL.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from rich.console import Console

from bench.support.spark_cluster import SparkCluster, running_cluster
from bench.support.versitygw import S3Server, running_versitygw
from demo.__main__ import start
from demo.airflow import AirflowStandalone
from demo.screen import Screen
from demo.story import Story
from holdfast.archive import Archive
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.operations.marks import set_mark
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.membership import begin_membership
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key
from tests.support.airflow.airflow_dags import ARCHIVES, DAGS, POLICY, PROTECTED_DAG
from tests.support.following.followed import open_followed
from tests.support.jobs.command import until
from tests.support.replicas.replicated import Replicas
from tests.support.servers.postgres import create_database, passing_database

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(path for path in (ROOT / "docs" / "examples").glob("*.py") if not path.stem.startswith("locks"))
REPLICAS = ("near", "far", "third")
USERS = {"demo": "admin", "olga": "op", "uma": "user", "victor": "viewer"}

HOSTILE = "<img src=x onerror=alert(1)>\"'&"
"""A name of a table, a mark and a purpose that is markup."""

LIMIT_S = 500.0
"""Seconds that a test waits for Airflow: many work there at once, on a machine that may be busy."""


@dataclass(frozen=True)
class Stage:
    """A running Airflow, and what its DAGs work on.

    :param stack: its end is that of all.
    :param folder: of the demo.
    :param words: printed by the demo.
    :param books: an encrypted archive with a full backup and four of changes, whose source is gone.
    :param trio: an archive with three replicas, empty at first.
    :param market: the archive that tests of the page change, with its source.
    :param warehouse: the source of the examples; `examples` is their archive.
    :param empty: databases to restore into, by the name of their connection.
    :param locked: a store with nothing but locks.
    """

    stack: ExitStack
    story: Story
    folder: Path
    words: io.StringIO
    books: ObjectStore
    trio: Replicas
    s3: S3Server
    cluster: SparkCluster
    market: ObjectStore
    market_source: Address
    examples: ObjectStore
    warehouse: Address
    empty: Mapping[str, Address]
    locked: ObjectStore

    @property
    def airflow(self) -> AirflowStandalone:
        """The demo's Airflow."""
        return self.story.airflow

    def begin(self, dag: str, **form: Any) -> str:
        """Begin a run as soon as the DAG is there, and return its id."""
        self.airflow.api.wait_for_dag(dag)
        return self.airflow.api.trigger(dag, form)

    def end(self, dag: str, run: str) -> str:
        """Wait for a run's end and return its state; each look takes Airflow's CPU time."""
        return self.airflow.api.wait_for_run(dag, run, timeout=LIMIT_S, poll=0.7)

    def succeeds(self, dag: str, **form: Any) -> str:
        """Begin a run, wait until it has succeeded, and return its id."""
        run = self.begin(dag, **form)
        assert self.end(dag, run) == "success"
        return run

    def passes_on(self, dag: str, task: str, **form: Any) -> dict[str, Any]:
        """Begin a run, wait until it has succeeded, and return what a task passed on."""
        value = self.airflow.api.xcom(dag, self.succeeds(dag, **form), task)
        assert isinstance(value, dict)
        return value

    def states(self, dag: str, run: str) -> dict[str, str | None]:
        """Return the states of a run's tasks."""
        return {task.task_id: task.state for task in self.airflow.api.tasks(dag, run)}

    def until_states(self, dag: str, run: str, **expected: str) -> None:
        """Wait until tasks are in these states."""
        until(lambda: expected.items() <= self.states(dag, run).items(), f"{dag}: {expected}", LIMIT_S, pause_s=0.5)


class InBuckets(Replicas):
    """Replicas with a bucket for each."""

    def place(self, name: str) -> ObjectStore:
        return open_store(f"s3://{name}/trio")


def as_connection(address: Address) -> str:
    """Return an address as an Airflow connection of Holdfast's own type, its password included."""
    url = httpx.URL(address.url)
    host, port = url.params.get("host", url.host), int(url.params.get("port", url.port or 5432))
    place = {"host": host, "port": port, "login": url.username, "schema": address.database}
    return json.dumps({"conn_type": "holdfast_postgres", "password": address.password, **place})


@contextmanager
def running_stage(postgres: PostgresServer, folder: Path) -> Iterator[Stage]:
    """Start all of it; it ends with the block, or with its stack."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        books = _make_books(postgres, folder)
        s3 = stack.enter_context(_buckets(patch))
        cluster = stack.enter_context(running_cluster(spark_eventLog_enabled="false"))
        trio = stack.enter_context(_replicas(postgres, folder, patch))
        crm = create_database(postgres)
        with connect(crm) as session:
            session.execute("create table public.customers as select i as id from generate_series(1, 50) i")
        accounts, warehouse, market_source = (stack.enter_context(passing_database(postgres)) for _ in range(3))
        with connect(accounts) as session:
            session.execute("create table public.accounts (id int primary key, n int)")
            session.execute("insert into public.accounts select i, i from generate_series(1, 50) i")
        with connect(warehouse) as session:
            session.execute("create table public.orders as select i as id from generate_series(1, 50) i")
        market = _make_market(market_source, folder)
        examples = Archive.create(open_store(str(folder / "warehouse")), name="warehouse").store
        Archive.create(open_store(str(folder / "accounts")), name="accounts")
        locked = open_store(str(folder / "locked"))
        _write_dags(folder, {"url": locked.url}, accounts)
        empty = {name: create_database(postgres) for name in ("copy", "drill_postgres", "target", "migrated")}
        archives = ARCHIVES.format(
            folder=folder,
            gone=postgres.url("gone"),  # what looks after an archive asks its sources nothing
            crm=crm.url,
            accounts=accounts.url,
            market=market_source.url,
            warehouse=warehouse.url,
            store=trio.coordination.url,
        )
        # As in docker-compose.yaml. With SQLite, the API server of Airflow 3.3 hangs until SQLite's time-out where a
        # person's request writes during a task's: it commits its audit log in the event loop (log_action).
        metadata = postgres.conninfo(create_database(postgres).database).replace(
            "postgresql:", "postgresql+psycopg:", 1
        )
        demo, words = folder / "demo", io.StringIO()
        story = start(
            stack,
            Screen(Console(file=words, width=200)),
            PostgresServer(),
            demo,
            0.05,
            dags=folder / "settings" / "dags",
            archives=yaml.safe_load(archives),
            env={
                "PGPASSWORD": postgres.password,
                "AIRFLOW_CONN_SPARK_CLUSTER": json.dumps({"conn_type": "spark", "host": cluster.url}),
                **{f"AIRFLOW_CONN_{name.upper()}": as_connection(address) for name, address in empty.items()},
                **{name: value for name, value in cluster.environment.items() if name.startswith("SPARK_")},
                "PYTHONPATH": os.pathsep.join([str(folder / "settings"), str(ROOT)]),  # the policy, and this folder
                "AIRFLOW__CORE__EXECUTOR": "tests.support.airflow.prepared_executor.PreparedExecutor",
                "AIRFLOW__CORE__PARALLELISM": "8",
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata,
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": metadata,
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
                # No file changes here: reading all of them again takes seven CPU seconds.
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
                "AIRFLOW__OPENLINEAGE__SELECTIVE_ENABLE": "True",
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
                    {"type": "file", "log_file_path": str(folder / "lineage"), "append": True}
                ),
            },
        )
        # The commands of the demo: what is by Spark there, Airflow's operators do.
        patch.setenv(FORCED_VARIABLE, "inline")
        yield Stage(
            stack, story, demo, words, books, trio, s3, cluster, market, market_source, examples, warehouse, empty,
            locked,
        )  # fmt: skip


def _make_books(postgres: PostgresServer, folder: Path) -> ObjectStore:
    key = f"file:{folder / 'key'}"
    (folder / "key").write_text(new_key())
    with pytest.MonkeyPatch.context() as patch, passing_database(postgres) as source:
        patch.setenv(ENVIRONMENT, key)
        with open_followed(source, folder / "books") as followed:
            followed.run("create table orders (id int primary key, word text)")
            followed.run("insert into orders select i, 'new' from generate_series(1, 100) i")
            for number in range(5):
                followed.run(f"update orders set word = 'after {number}'")
                followed.back_up("changes")
    return open_store(str(folder / "books"), key)


def _make_market(source: Address, folder: Path) -> ObjectStore:
    with open_followed(source, folder / "market") as followed:
        followed.run("create table orders (id int primary key, word text)")
        followed.run(f'create table "{HOSTILE.replace(chr(34), chr(34) * 2)}" (id int primary key)')
        followed.run("insert into orders select i, 'new' from generate_series(1, 100) i")
        followed.back_up("changes")
        followed.run("update orders set word = 'before'")
        for name in ("before the mistake", HOSTILE):
            set_mark(followed.archive(), [followed.store], source, "shop", name)
        followed.run("update orders set word = 'after'")
        followed.back_up("changes")
        return followed.store


@contextmanager
def _buckets(patch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Start an S3 server with a bucket for each replica, the only one that the environment names."""
    with running_versitygw() as server:
        for name in REPLICAS:
            server.make_bucket(name)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@contextmanager
def _replicas(postgres: PostgresServer, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    """Make the replicas, which are there before Airflow's first sync."""
    patch.setenv("HOLDFAST_STORE_PASSWORD", postgres.password)
    with CoordinationStore.open(create_database(postgres).url) as coordination:
        replicas = InBuckets(folder, coordination)
        replicas.archive = Archive.create(replicas.place("near"), name="trio").identity.id
        begin_membership(coordination, replicas.place("near"), "near")
        for name in REPLICAS[1:]:
            replicas.add(name)
        yield replicas


def _write_dags(folder: Path, terms: Mapping[str, str], accounts: Address) -> None:
    """Write the policy, DAGs of other people, and the examples."""
    dags = folder / "settings" / "dags"
    dags.mkdir(parents=True)
    (dags.parent / "airflow_local_settings.py").write_text(POLICY)
    for name, text in DAGS.items():
        (dags / f"{name}.py").write_text(text.format(name=name, **terms))
    (dags / "migrate_accounts.py").write_text(PROTECTED_DAG.format(url=accounts.conninfo()))
    for path in EXAMPLES:
        # Without the run that a schedule of the past begins with.
        text = re.sub(r'schedule="[^"]+"', "schedule=None", path.read_text())
        (dags / path.name).write_text(text.replace('"shop"', '"warehouse"'))
