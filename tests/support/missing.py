"""Programs of the tests that could not be built here: their tests are skipped, and with ``CI=true`` they fail.

A plugin of pytest. Where setting up left something out, it wrote why to ``.work/missing``. Without such a note, what is
missing is an error as ever.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import pytest

NOTES = Path(__file__).resolve().parents[2] / ".work" / "missing"


class MissingError(FileNotFoundError):
    """A program that is not there.

    :param name: of the note on it
    :param otherwise: the sentence where there is no note: what is missing, and what to do
    """

    def __init__(self, name: str, otherwise: str) -> None:
        note = NOTES / name
        self.is_left_out = note.exists()
        super().__init__(note.read_text().strip() if self.is_left_out else otherwise)


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
