"""Programs of the tests that could not be built here: their tests are skipped, and with ``CI=true`` they fail.

A plugin of pytest. What is missing without a note of set-up is an error as ever.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import NoReturn

import pytest

from bench.support.missing import MissingError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Skip a test whose fixtures need what was left out."""
    try:
        return (yield)
    except MissingError as missing:
        _end(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip a test that itself needs what was left out."""
    try:
        return (yield)
    except MissingError as missing:
        _end(missing)


def _end(missing: MissingError) -> NoReturn:
    if missing.is_left_out and os.environ.get("CI") != "true":
        pytest.skip(str(missing))
    raise missing
