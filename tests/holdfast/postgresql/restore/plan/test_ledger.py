"""The progress of a restore, which it keeps in its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.ledger import TargetClaim


@pytest.mark.parametrize(("position", "at"), [("", "commit:7"), ("0/2A", "lsn:0/2A")])
def test_it_is_gone_on_with_at_the_moment_that_it_is_of(position: str, at: str) -> None:
    claim = TargetClaim("archive", "block", (), (), commit=7, run="run-1", position=position)
    assert claim.at == at


pytestmark = pytest.mark.service


CLAIM = ledger.TargetClaim("archive", "block", (), (), commit=1, run="run")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"archive": "other"}, "this one is from another archive"),
        ({"block": "other", "commit": 2}, "this one is of commit 2"),
        ({"tables": ("a.*",)}, "this one is of other tables or names"),
        ({"maps": ("a=b",)}, "this one is of other tables or names"),
        ({"is_data_only": True}, "this one is --data-only"),
        ({"run": "another", "commit": 7}, ""),
    ],
)
def test_a_restore_goes_on_with_the_same_one_only(change: dict[str, Any], words: str) -> None:
    assert replace(CLAIM, **change).difference(CLAIM) == words


def test_a_schema_that_is_called_like_a_ledger_is_no_ledger(address: Address) -> None:
    with connect(address) as session:
        assert ledger.read_ledger(session) is None
        session.execute("create schema holdfast_restore")
        with pytest.raises(RefusedError, match="that no restore of this release has made"):
            ledger.read_ledger(session)


def test_an_event_trigger_that_refuses_the_undo_is_named(older: Callable[[int], PostgresServer]) -> None:
    server = older(14)  # a session that replicates fires those that are enabled always
    with connect(Address(server.url(), server.password)) as admin:
        admin.execute("create database refusing")
    with connect(Address(server.url("refusing"), server.password)) as session:
        ledger.create_ledger(session, CLAIM)
        with session.transaction(), ledger.noted(session):
            session.execute("create table public.made ()")
        session.execute(
            "create function public.no_drop() returns event_trigger language plpgsql as "
            "$$ begin raise exception 'dropping is forbidden here'; end $$"
        )
        session.execute("create event trigger forbid on sql_drop execute function public.no_drop()")
        session.execute(  # another one, though the name of its function ends the other's
            "create function public.drop() returns event_trigger language plpgsql as $$ begin end $$"
        )
        session.execute("create event trigger audit on sql_drop execute function public.drop()")
        session.execute("alter event trigger audit enable always")
        session.execute("alter event trigger forbid enable always")
        with pytest.raises(RefusedError, match=r"event trigger forbid .*dropping is forbidden.*forbid disable"):
            ledger.undo(session)
        session.execute("alter event trigger forbid disable")
        assert ledger.undo(session) == ("table public.made",)
