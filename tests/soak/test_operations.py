"""What schedulers draw: every kind comes, and the command knows each of their options."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

import click
import pytest
import typer

from holdfast.cli.app import app
from soak.operations import Acknowledged, Choice, Operation
from soak.servers import SOURCES

BACKUPS = [
    Acknowledged(f"b{number}", source, f"2026-03-01T00:00:{number:02}+00:00")
    for number, source in enumerate(SOURCES * 3)
]


def drawn(count: int = 600) -> list[Operation]:
    choice = Choice(random.Random(1), clock="/lib/clock.so", backups=BACKUPS)
    return [choice.next() for _ in range(count)]


def test_every_kind_comes_and_a_seed_draws_the_same_again() -> None:
    kinds = Counter(operation.kind for operation in drawn())
    assert len(kinds) >= 17
    assert [each.words[0] for each in drawn(50)] == [each.words[0] for each in drawn(50)]


def test_the_command_knows_all_words() -> None:
    root = typer.main.get_command(app)
    for operation in {each.kind: each for each in drawn()}.values():
        command, words = root, list(operation.words)
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, operation.words
            command = found
        command.make_context("holdfast", words, resilient_parsing=True)


def test_moments_are_those_of_backups_or_between_them() -> None:
    asking = [each for each in drawn() if each.kind == "restore"]
    assert {bool(each.point) for each in asking} == {True, False}
    for operation in asking:
        asked = datetime.fromisoformat(operation.words[operation.words.index("--at") + 1])
        assert operation.moment == pytest.approx(asked.timestamp())
        assert datetime(2026, 3, 1, tzinfo=UTC) <= asked


def test_some_run_on_spark_and_some_with_a_wrong_clock_and_none_with_both() -> None:
    given = [each.variables for each in drawn()]
    assert {each["HOLDFAST_EXECUTOR"] for each in given} == {"inline", "spark"}
    clocks = [each for each in given if "SOAK_CLOCK" in each]
    assert clocks
    assert {each["HOLDFAST_EXECUTOR"] for each in clocks} == {"inline"}


def test_an_order_is_read_as_it_was_written() -> None:
    for operation in drawn(20):
        assert Operation.from_json(operation.as_json()) == operation
