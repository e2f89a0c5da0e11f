"""A shop with its archive, and the page that a test follows in it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop


@pytest.fixture
def roles(postgres: PostgresServer) -> Iterator[None]:
    """Drops the roles that back up, once the test's databases are gone."""
    yield
    with connect(Address(postgres.url(), postgres.password)) as session:
        for (name,) in session.execute(
            "select rolname::text from pg_roles where rolname like 'backup_of_%'"
        ).fetchall():
            session.execute(f"drop role {name}".encode())


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, tmp_path: Path, roles: None, address: Address, new_database: Callable[..., Address]
) -> Shop:
    """A database that is followed, with one backup."""
    made = Shop(tmp_path, address, new_database, getattr(request, "param", ()))
    made.begin()
    return made


@pytest.fixture
def page(request: pytest.FixtureRequest, shop: Shop) -> Page:
    """The parts of the runbook that the test's mark `follows` names; the test has to come to their end."""
    name, *headings = request.node.get_closest_marker("follows").args
    names = {"ARCHIVE": "shop", "SOURCE": "shop", "URL": "shop", "DATABASE": shop.database.url, "ROLE": shop.role}
    return Page(name, tuple(headings), shop.run, shop.sql, names)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test that has left out the last commands of its page."""
    done = yield
    if isinstance(followed := pyfuncitem.funcargs.get("page"), Page):
        followed.ends()
    return done
