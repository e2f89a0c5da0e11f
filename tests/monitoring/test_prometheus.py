"""The rules and the dashboard in Prometheus' own hands: its checks, its unit tests, and a server with real metrics."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.archive.format.runs import RunLog
from holdfast.metrics.catalogue import CATALOGUE, Sample
from holdfast.metrics.exposition import render
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.replication.log.store import CoordinationStore
from holdfast.storage import open_store
from locking import Owner, RWLock
from tests.monitoring.conftest import Prometheus, program, scraping
from tests.support.jobs.command import finish, run, start, until
from tests.support.monitoring import ALERT_TESTS, ALERTS, queries, rules
from tests.support.replicas.replicated import Replicas
from tests.support.servers.postgres import drop_slots

pytestmark = [pytest.mark.exhaustive, pytest.mark.service]

OBJECTIVES = {"rpo": "1h", "rto": "1h", "drill_within": "7d", "verified_within": "30d"}


def test_promtool_finds_no_fault_in_the_rules_and_their_tests_pass() -> None:
    for words in (["check", "rules", str(ALERTS)], ["test", "rules", str(ALERT_TESTS)]):
        done = subprocess.run([program("promtool"), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout


def test_promtool_finds_no_fault_in_the_names_of_any_metric() -> None:
    text = render([Sample(each.name, dict.fromkeys(each.labels, "x"), 1.0) for each in CATALOGUE.values()])
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def archives(tmp_path: Path, address: Address) -> Iterator[dict[str, str]]:
    """Two archives: one of a followed database, with a hold, a drill and a lock, and one with replicas.

    :returns: environment variables by which the command knows them.
    """
    with connect(address) as session:
        session.execute("create table public.orders (id int primary key)")
        session.execute("insert into public.orders select generate_series(1, 100)")
    with CoordinationStore.open(f"sqlite:///{tmp_path}/log.db") as coordination:
        spread = Replicas.begun(tmp_path, coordination, "far")
        spread.back_up("near")
    shop = {"url": str(tmp_path / "shop"), "sources": {"shop_db": {"url": address.url, "objectives": OBJECTIVES}}}
    places = {name: spread.place(name).url for name in ("near", "far")}
    several = {"replicas": places, "store": f"sqlite:///{tmp_path}/log.db"}
    (tmp_path / "archives.yaml").write_text(json.dumps({"archives": {"shop": shop, "spread": several}}))
    more = {"HOLDFAST_ARCHIVES": str(tmp_path / "archives.yaml")}
    for words in (
        ["init", shop["url"], "--name", "shop"],
        ["backup", "shop", "--source", "shop_db", "--kind", "changes"],
        ["backup", "shop", "--source", "shop_db"],
        ["hold", "add", "shop", "--at", "latest", "--reason", "a test"],
    ):
        done = run(*map(str, words), address=address, more=more)
        assert done.code == 0, done.err
    with RunLog(store := open_store(str(shop["url"])), "drill-shop_db.20260301T000000Z.abc", "drill") as log:
        log.result = {"source": "shop_db", "seconds": 2.5}
    with RWLock(store, "format", owner=Owner()).read(purpose="a test", wait=0):
        yield more
    drop_slots(address)


@pytest.fixture
def prometheus(tmp_path: Path, address: Address, archives: dict[str, str]) -> Iterator[Prometheus]:
    """A Prometheus that has scraped all of it."""
    words = ("metrics", "--listen", "127.0.0.1:0", "--every", "1s", "--listing")
    command = start(*words, address=address, more=archives)
    assert command.stderr is not None
    target = urlsplit(command.stderr.readline().split("metrics at ")[1].split(",")[0]).netloc
    (folder := tmp_path / "prometheus").mkdir()
    try:
        with scraping(folder, target) as server:
            until(lambda: server.values("holdfast_archive_up"), "the first scrape")
            yield server
    finally:
        command.terminate()
        done = finish(command)
    assert (done.code, done.out, done.err) == (0, "", "")


ESSENTIAL = {
    "holdfast_archive_up": [1, 1],
    "holdfast_source_server_up": [1],
    "sum by (archive) (holdfast_source_full_backups)": [1, 2],
    'holdfast_source_rows{archive="shop"}': [100],
    "count(holdfast_objective_met)": [4],
    "min(holdfast_objective_met)": [1],
    "sum(holdfast_holds)": [1],
    "holdfast_slot_lost": [0],
    "holdfast_slot_limit_bytes": [10 << 30],
    'holdfast_locks{state="held"}': [1],
    "holdfast_coordination_store_up": [1],
    'holdfast_replica_behind_entries{replica="far"} > bool 0': [1],
    'sum(holdfast_job_last_exit_code{operation="backup"})': [0],
    "time() - holdfast_source_restorable_to_timestamp_seconds{archive='shop'} < bool 600": [1],
    "time() - holdfast_metrics_collected_timestamp_seconds < bool 60": [1],
    "sum(up)": [1],
}


def test_each_expression_is_evaluated_on_real_metrics_and_what_matters_is_told(prometheus: Prometheus) -> None:
    for expression in [*(rule["expr"] for rule in rules()), *(expression for expression, _ in queries())]:
        prometheus.api("query", query=expression)
    assert {expression: prometheus.values(expression) for expression in ESSENTIAL} == ESSENTIAL
    # A server that keeps log without a limit has no such bytes, and an archive in the clear has no key.
    empty = {"holdfast_slot_safe_bytes", "holdfast_source_key_proved_timestamp_seconds"}
    assert {name for name in CATALOGUE if not prometheus.values(name)} == empty
    shown = {expression for expression, _ in queries() if prometheus.values(expression)}
    assert all(any(name in each for name in empty) for each in {each for each, _ in queries()} - shown)


def test_the_server_judges_every_rule_and_only_what_is_wrong_is_about_to_be_an_alert(prometheus: Prometheus) -> None:
    def judged() -> list[dict[str, str]]:
        found = [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]
        wrong = {rule["name"] for rule in found if rule["state"] != "inactive"}
        # Made-up backups are of a long time ago. Before the first scrape there are no fresh metrics, either.
        return found if wrong == {"HoldfastRestorableMomentOld"} else []

    found = until(judged, "each rule to be judged on the first scrape")
    assert len(found) == len(rules())
    assert {rule["health"] for rule in found} == {"ok"}
