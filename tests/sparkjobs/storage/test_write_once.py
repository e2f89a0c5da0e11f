"""What is written once asks the store to create it, and a store that refuses everything else has all it needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.support.versitygw import S3Server
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import StoreDenied, open_url
from tests.support.jobs.command_here import run_here
from tests.support.stores.conditional_writes import only_conditional_writes

pytestmark = pytest.mark.service

URL = "s3://backups/shop"
REWRITTEN = r"[^/]+/locks/"
"""What is rewritten on purpose: locks are renewed."""


def do(address: Address, *statements: str) -> None:
    with connect(address) as session:
        for statement in statements:
            session.execute(statement.encode())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.contract.parts.PART_BYTES", 5 << 20)


def test_every_write_of_an_archives_life_but_of_locks_is_conditional(
    s3: S3Server, new_database: Callable[..., Address]
) -> None:
    source, target = new_database(), new_database()
    do(
        source,
        "create table public.orders (id int primary key, name text)",
        "insert into public.orders select i, md5(i::text) from generate_series(1, 99) i",
        "create table public.wide as select i, (select string_agg(md5((i * 1000 + n)::text), '')"
        " from generate_series(1, 330) n) as words from generate_series(1, 1500) i",
    )
    with only_conditional_writes(s3, REWRITTEN) as writes:
        more = writes.server.environment

        def holdfast(*arguments: str) -> None:
            done = run_here(*arguments, address=source, more=more)
            assert done.code == 0, done.out + done.err

        backup = ("backup", URL, "--source", source.url)
        holdfast("init", URL, "--format", "1")
        holdfast("migrate", URL, "--to", "2")
        holdfast(*backup, "--kind", "changes")
        do(source, "insert into public.orders values (100, 'one more')")
        holdfast(*backup)
        do(source, "update public.orders set name = 'changed' where id < 5")
        holdfast(*backup)
        holdfast("mark", URL, "noon", "--source", source.url)
        holdfast("hold", "add", URL, "--at", "latest", "--reason", "the audit")
        holdfast("compact", URL)
        holdfast("compact", URL, "--consolidate")
        holdfast("truncate", URL, "--keep", "last=1")
        holdfast("verify", URL, "--deep")
        holdfast("vacuum", URL)
        holdfast("restore", URL, "--to", target.url)
        holdfast("copy", URL, "s3://backups/shop-2")

    assert writes.refused == []
    assert {key.split("/")[1] for key in writes.excepted} == {"locks"}
    kinds = {key.split("/")[1] for key in writes.created}
    assert kinds == {"archive.json", "commits", "checkpoints", "data", "marks", "probes", "runs"}


def test_the_gate_refuses_what_comes_without_the_condition(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_conditional_writes(s3, REWRITTEN) as writes:
        for name, value in writes.server.environment.items():
            monkeypatch.setenv(name, value)
        store = open_url("s3://backups/shop")
        store.put("locks/a", b"1")
        store.create("data/a", b"1")
        with pytest.raises(StoreDenied, match="without If-None-Match"):
            store.put("data/a", b"2")
        assert store.get("data/a") == b"1"
