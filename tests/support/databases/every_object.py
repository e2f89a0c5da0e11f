"""The script of a database with every kind of object, as far as a server knows them."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident

SQL = Path(__file__).parents[2] / "fixtures" / "postgresql"
ROLES = ("torture_reader", 'Torture "owner"')

_WITHOUT_EXTENSIONS = {
    "create extension cube;": "create domain cube as float8[];",
    "create extension postgres_fdw;": "create foreign data wrapper postgres_fdw;",
    r"create extension (hstore|citext|ltree);": r"create domain \1 as text;",
    r"create extension (btree_gist|pg_trgm)[^;]*;": "",
    "comment on extension": "comment on domain",
    r"cube\((array[^)]*)\)": r"\1",
    "code with =, valid with &&": "valid with &&",
    r"create index (kinds_trigram )?on kinds using gin [^;]*;": "",
}


def parts(server_version: int, *, extensions: bool = True) -> list[str]:
    """Return the parts to run one after the other, each in one request.

    :param extensions: False makes do with a server that has none of PostgreSQL's own.
    """
    newer = sorted(SQL.glob("every_object_*.sql"))
    files = [SQL / "every_object.sql", *(path for path in newer if int(path.stem[-2:]) <= server_version // 10000)]
    script = "\n-- (commit)\n".join(path.read_text("utf-8") for path in files)
    if not extensions:
        for pattern, instead in _WITHOUT_EXTENSIONS.items():
            script = re.sub(pattern, instead, script)
    return re.sub(r"^(drop|create) role .*\n", "", script, flags=re.MULTILINE).split("\n-- (commit)\n")


def create_roles(server: Address) -> None:
    """Create the roles that the script names, where they are missing."""
    with connect(server) as session:
        known = {row[0] for row in session.execute("select rolname from pg_roles")}
        for role in set(ROLES) - known:
            session.execute(f"create role {ident(role)}".encode())
