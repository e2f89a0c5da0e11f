"""A backup or a drill fails, or meets a lock: the pages lead to the reason, and the next backup succeeds."""

from __future__ import annotations

import getpass
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from holdfast.storage import open_store
from locking import RWLock
from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service

_HOLDER = """
import sys, time
from holdfast.storage import open_store
from locking import RWLock
lease = RWLock(open_store(sys.argv[1]), sys.argv[2]).write(purpose=sys.argv[3], wait=0)
print(lease.txn, flush=True)
sys.stdin.read()
"""

Hold = Callable[..., tuple[str, subprocess.Popen[str]]]


@pytest.fixture
def hold(shop: Shop) -> Iterator[Hold]:
    """Starts processes that hold a lock, and returns its transaction with the process."""
    started = []

    def start(resource: str, purpose: str) -> tuple[str, subprocess.Popen[str]]:
        command = [sys.executable, "-c", _HOLDER, str(shop.place), resource, purpose]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip(), process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.follows("a-lock-is-held")
def test_locks_of_the_dead_go_and_those_of_others_are_broken(shop: Shop, page: Page, hold: Hold) -> None:
    txn, process = hold("ingest-shop", "backup backup.20261121T181351Z.136e65")
    here = {"vm": socket.gethostname(), "root": getpass.getuser(), "TXN": txn}
    refused = shop.run("backup", "shop", "--source", "shop", "--kind", "changes")
    assert refused.code == 3
    page.names |= here
    page.shows_within(refused, "ingest-shop is held")
    process.send_signal(signal.SIGKILL)
    process.wait()
    page.does("holdfast locks explain URL")
    page.does("holdfast locks explain URL --txn TXN")
    page.does("holdfast locks list")
    page.does("holdfast locks plan")
    assert txn in page.does("holdfast locks reap").out
    shop.goes_on()
    txn, process = hold("report", "a report")
    page.does("holdfast locks break", names={"3cec2aa90db44a78ad44f1c1d706b127": txn})
    with RWLock(open_store(str(shop.place)), "report").write(wait=0):
        shop.goes_on()


@pytest.mark.follows("backup-failed")
def test_a_backup_that_was_refused_succeeds_once_its_reason_is_gone(shop: Shop, page: Page) -> None:
    shop.works()
    shop.sql(f"revoke pg_read_all_data from {shop.role}", "create table late (id int primary key)")
    refused = shop.run("backup", "shop", "--source", "shop", "--kind", "full")
    assert (refused.code, refused.err.splitlines()[-1].startswith("holdfast: ")) == (5, True)
    assert "may not read" in refused.err
    page.does("holdfast doctor", code=1)
    assert "FAIL" in page.does("holdfast source check", code=5).out
    page.does("holdfast locks reap")
    names = {"SOURCE": shop.database.url, "<role>": shop.role}
    script = page.does("holdfast source setup", names=names).out
    shop.sql(*(line for line in script.splitlines() if line.lower().startswith("grant")))
    page.does("holdfast status")
    page.does("holdfast points")
    shop.sql("drop table late")
    shop.goes_on()


@pytest.mark.follows("drill-failed")
def test_a_drill_that_failed_succeeds_once_its_reason_is_gone(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up()
    file = max(shop.place.glob("data/**/snapshot/**/*.parquet"), key=lambda each: each.stat().st_size)
    body = file.read_bytes()
    file.write_bytes(body[:-50] + bytes(50))
    failed = shop.run("drill", "shop", "--source", "shop", "--at", "latest", "--to", shop.new().url)
    assert failed.code == 4
    assert "is damaged" in page.does("holdfast drill ARCHIVE --history").out
    file.write_bytes(body)
    page.does("holdfast drill ARCHIVE --source", names={"MOMENT": "commit:1"})
    shop.goes_on()
