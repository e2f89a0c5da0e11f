"""The list of commands, and the commands that it stands for."""

from __future__ import annotations

import inspect

import pytest

from holdfast.cli.commands import COMMANDS, load
from tests.support.jobs.command import RunCommand


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_each_command_what_it_says_of_itself(name: str) -> None:
    first, *_ = inspect.cleandoc(load(name).help or "").split("\n\n")
    assert COMMANDS[name].help == " ".join(first.split())


def test_every_command_is_listed_in_order(holdfast: RunCommand) -> None:
    lines = holdfast("--help").out.splitlines()
    rows = [line.split()[1] for line in lines if line[:2] == "│ " and line[2:3].isalpha()]
    assert rows == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_own_options(holdfast: RunCommand, name: str) -> None:
    done = holdfast(name, "--help")
    assert done.code == 0
    assert f"Usage: holdfast {name} [OPTIONS]" in done.out
