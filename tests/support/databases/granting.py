"""Rights of a role that backs up: given, taken back, and looked at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.backup_role import read_role
from holdfast.postgresql.snapshot.obstacles import obstacles

Execute = Callable[..., None]


def setup(address: Address, role: str, *more: Address, **options: Any) -> grants.Plan:
    plan = grants.plan_setup(address, [each.database for each in (address, *more)], role, **options)
    grants.run(address, plan)
    return plan


def remove(address: Address, role: str, *more: Address, **options: Any) -> grants.Plan:
    plan = grants.plan_remove(address, [each.database for each in (address, *more)], role, **options)
    grants.run(address, plan)
    return plan


def in_the_way(address: Address, role: str) -> list[str]:
    """Return what keeps a role from backing up a database."""
    with connect(address) as session:
        session.execute(f"alter role {role} password 'p'".encode())
    login = Address(address.url.replace("postgres@", f"{role}@"), "p")
    with connect(login) as session:
        return [each.what for each in obstacles(session)]


def rights(address: Address, role: str) -> list[Any]:
    """Return everything that PostgreSQL knows of a role's rights in this database."""
    with connect(address) as session:
        return [
            session.execute(query.encode(), {"role": role}).fetchall()
            for query in (
                "select rolcanlogin, rolbypassrls, rolreplication, shobj_description(oid, 'pg_authid') from pg_roles "
                "where rolname = %(role)s",
                "select roleid::regrole::text from pg_auth_members where member = %(role)s::regrole",
                "select c.oid::regclass::text, a.privilege_type from pg_class c, aclexplode(c.relacl) a "
                "where a.grantee = %(role)s::regrole order by 1, 2",
                "select n.nspname, a.privilege_type from pg_namespace n, aclexplode(n.nspacl) a "
                "where a.grantee = %(role)s::regrole order by 1, 2",
                "select defaclnamespace::regnamespace::text, defaclobjtype "
                "from pg_default_acl d, aclexplode(defaclacl) a where a.grantee = %(role)s::regrole order by 1, 2",
                "select datname from pg_database d, aclexplode(d.datacl) a where a.grantee = %(role)s::regrole",
            )
        ]


def exists(address: Address, role: str) -> bool:
    with connect(address) as session:
        return read_role(session, role).exists


def run_script(postgres: PostgresServer, script: str, address: Address, folder: Path) -> None:
    assert address.password
    assert address.password not in script
    (file := folder / "script.sql").write_text(script)
    done = subprocess.run(
        [postgres.programs / "psql", "-X", "-q", "-o", os.devnull, "-f", file, address.url],
        env={**address.environment(), "PGCLIENTENCODING": "UTF8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
