"""The question before work that cannot be undone."""

from __future__ import annotations

import io
import sys

import pytest

from holdfast.cli.shared.confirmation import confirm
from holdfast.cli.shared.output import Output
from holdfast.common.errors import UsageError


class Terminal(io.StringIO):
    """A terminal with what is typed, or what is shown."""

    def isatty(self) -> bool:
        return True


def ask(monkeypatch: pytest.MonkeyPatch, typed: io.StringIO, *, yes: bool = False) -> str:
    """Ask, and return what a person at a terminal sees."""
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "stderr", Terminal())
    confirm("shop", "shop goes on without entry 1", yes=yes, output=Output(as_json=True))
    assert isinstance(sys.stderr, Terminal)
    return sys.stderr.getvalue()


def test_a_person_is_told_what_is_lost_and_types_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ask(monkeypatch, Terminal("shop\n"))
    assert shown.startswith("shop goes on without entry 1\nThis cannot be undone. Type shop to go on")


def test_another_name_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="that is not shop: nothing was done"):
        ask(monkeypatch, Terminal("yes\n"))


def test_without_a_terminal_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"no terminal to ask at: nothing was done\. Add --yes"):
        ask(monkeypatch, io.StringIO("shop\n"))


def test_a_script_says_yes_and_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, io.StringIO(), yes=True) == ""
