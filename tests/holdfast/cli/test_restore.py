"""The command that restores, as far as it goes without a job."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.cli import restore
from holdfast.operations import job_process
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand


@pytest.mark.service
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_target_that_is_not_empty_is_refused_before_a_job_starts(
    holdfast: RunCommand, filled: ObjectStore, address: Address, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    def started(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a job was started")

    monkeypatch.setattr(job_process, "submit", started)
    with connect(address) as session:
        session.execute("create table public.mine (id int)")
    for name, value in address.environment().items():
        monkeypatch.setenv(name, value)
    done = holdfast("restore", filled.url, "--to", address.url, *more)
    assert (done.code, "is not empty: it has public.mine" in done.err) == (5, True)


def test_a_plan_shows_tables_with_older_rows_and_when_they_are_whole_again(capsys: pytest.CaptureFixture[str]) -> None:

    plan = dict.fromkeys(
        ("tables", "objects", "database", "renamed", "skipped_existing", "touches", "unchanged", "not_restored"), ()
    ) | {"roles": dict.fromkeys(("created", "without_password", "joined", "differences"), ())}
    stale = {"as_of": None, "reason": "it has no snapshot yet", "whole_from": "2026-01-01", "whole_at": "commit:3"}
    value = {"source": "shop", "restored_to": "2026-01-01", "commit": 2}
    value |= dict.fromkeys(("rows", "changes", "tables", "bytes", "disk_bytes"), 0)
    lines = restore.plan_lines({**value, "plan": plan, "stale": [{"table": "public.late", **stale}]})
    assert "public.late: none: it has no snapshot yet; complete again at commit:3" in "\n".join(lines)
