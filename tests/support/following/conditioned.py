"""Tables whose conditions come later than their rows, and what there is of them after a restore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import Followed, known

PLAIN = (
    "create domain word as text",
    "create table plain (id int primary key, a int, b int, d word)",
    "insert into plain values (1, -1, null, 'bad'), (2, 2, 2, 'good'), (3, -3, 3, 'good')",
)


KEYLESS = (
    "create type \"kind of\" as enum ('a', 'b')",
    'create table keyless (a int, k "kind of")',
    "alter table keyless replica identity full",
    "insert into keyless values (-1, 'a'), (-1, 'b'), (5, null)",
)


MADE = (
    'create table made (id int generated always as identity primary key, n int, "The Name" text collate "C", '
    'upper text generated always as (upper("The Name")) stored)',
    "insert into made (n, \"The Name\") values (-7, 'x'), (8, 'y')",
)


ROOT = (
    "create table root (id int primary key, w text) partition by range (id)",
    "create table low partition of root for values from (0) to (10)",
    "create table rest partition of root default",
    "insert into root select i, 'w' from generate_series(1, 120) i",
)


BEGINNING = (*PLAIN, *KEYLESS, *MADE, *ROOT)


A_CHECK = ("update plain set a = 1 where a < 0", "alter table plain add check (a > 0)")


GENERATED = (
    ("update made set n = 0, \"The Name\" = 'moved' where n < 0",),
    ("alter table made add check (n >= 0)",),
)


def rows(address: Address) -> dict[str, list[str]]:
    """Return the rows of every table, by its name."""
    with connect(address) as session:
        found = known(session).values()
    return {table.label: sorted(map(str, (list(row.values()) for row in table.rows))) for table in found}


def change(followed: Followed, *transactions: Sequence[str]) -> None:
    """Run transactions and back them up."""
    for statements in transactions:
        followed.run(*statements)
    followed.back_up()


def nothing_is_left(address: Address) -> bool:
    with connect(address) as session:
        return session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)


def left_out(said: dict[str, Any]) -> dict[str, str]:
    return {each["object"]: each["statement"] for each in said["not_restored"]}
