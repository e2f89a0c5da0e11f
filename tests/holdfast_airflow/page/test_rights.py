"""Who may see an archive, change it, and break its locks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from holdfast_airflow.page import rights
from tests.support.airflow.page import Browsed

USER: Any = SimpleNamespace()


def refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except HTTPException as error:
        return (error.status_code, error.detail) == (403, "Forbidden")
    return False


@pytest.mark.parametrize(
    ("methods", "connections", "may"),
    [
        (set[str](), True, []),
        ({"GET"}, True, ["read"]),
        ({"GET", "PUT"}, False, ["read", "change"]),
        ({"GET", "PUT"}, True, ["read", "change", "break"]),
    ],
)
def test_each_needs_more_than_the_one_before(
    page: Browsed, methods: set[str], connections: bool, may: list[str]
) -> None:
    page.rights.methods, page.rights.connections = methods, connections
    asked: dict[str, Callable[[], object]] = {
        "read": lambda: rights.may_read("shop", USER),
        "change": lambda: rights.may_change("shop", USER, "1"),
        "break": lambda: rights.may_break(rights.may_change("shop", USER, "1"), USER),
    }
    assert [name for name, ask in asked.items() if not refused(ask)] == may
    assert refused(lambda: rights.may_read("books", USER))


def test_who_may_change_needs_the_pages_own_header(page: Browsed) -> None:
    assert refused(lambda: rights.may_change("shop", USER, None))
    assert rights.may_change("shop", USER, "") == "shop"


def test_what_the_page_offers_is_what_its_routes_allow(page: Browsed) -> None:
    assert rights.rights_of("shop", USER) == {"restore": True, "hold": True, "break": True}
    page.rights.methods = {"GET", "POST RUN"}
    assert rights.rights_of("shop", USER) == {"restore": True, "hold": False, "break": False}
    page.rights.methods, page.rights.connections = {"PUT"}, False
    assert rights.rights_of("shop", USER) == {"restore": False, "hold": True, "break": False}


def test_of_many_archives_those_are_shown_whose_restore_dag_may_be_read(page: Browsed) -> None:
    assert rights.readable({"shop", "books"}, USER) == {"shop"}
    assert rights.readable(set(), USER) == set()
    assert rights.sees_import_errors(USER)
    page.rights.import_errors = False
    assert not rights.sees_import_errors(USER)
