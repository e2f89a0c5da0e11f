"""A plugin of pytest: of a test with the mark `representatives`, all cases but those it names are `exhaustive`."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Leave all cases to `make test-all` but those that the mark `representatives` of their test names."""
    named: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for item in items:
        mark = item.get_closest_marker("representatives")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        if not hasattr(item, "callspec"):
            raise pytest.UsageError(f"{item.nodeid} has no cases, and so none to represent them")
        test, case = item.nodeid.removesuffix(item.name) + item.originalname, item.callspec.id
        named[test] = set(mark.args)
        found.setdefault(test, set()).add(case)
        if case not in mark.args:
            item.add_marker(pytest.mark.exhaustive)
    if any("::" in word for word in session.config.args):  # some cases are asked for, perhaps
        return
    for test, cases in named.items():
        if missing := cases - found[test]:
            raise pytest.UsageError(f"{test} has no case {sorted(missing)[0]!r} to represent it")
