"""Requests: an option is defined once, and the command, the application, the operator and the form all have it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.commands import load
from holdfast.common.errors import UsageError
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.requests.base import Option, Request
from holdfast.operations.requests.compaction import CompactionRequest
from holdfast.operations.requests.copy import CopyRequest
from holdfast.operations.requests.drill import DrillRequest
from holdfast.operations.requests.migration import MigrationRequest
from holdfast.operations.requests.query import QueryRequest
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.operations.requests.truncation import TruncationRequest
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.operations.requests.verification import VerificationRequest
from tests.support.jobs.application_arguments import parse_request

COMMANDS: dict[str, type[Request]] = {
    "backup": BackupRequest,
    "compact": CompactionRequest,
    "copy": CopyRequest,
    "drill": DrillRequest,
    "migrate": MigrationRequest,
    "query": QueryRequest,
    "restore": RestoreRequest,
    "truncate": TruncationRequest,
    "vacuum": VacuumRequest,
    "verify": VerificationRequest,
}


class Meal(Request):
    """A request with an option of each kind."""

    operation: ClassVar[str] = "meal"

    dish: Annotated[Literal["soup", "salad"], Option("Which.")] = "soup"
    guests: Annotated[int | None, Option("How many.", least=1)] = None
    sides: Annotated[tuple[str, ...], Option("What with it.")] = ()
    is_hot: Annotated[bool, Option("Warm it.")] = True
    to_go: Annotated[bool, Option("Wrap it.")] = False
    kitchen: str | None = None


WORDS = st.text("abc.*", min_size=1, max_size=5)
MEALS = st.builds(
    Meal,
    dish=st.sampled_from(["soup", "salad"]),
    guests=st.none() | st.integers(1, 99),
    sides=st.lists(WORDS, max_size=3).map(tuple),
    is_hot=st.booleans(),
    to_go=st.booleans(),
    kitchen=st.none() | WORDS,
)


@given(MEALS)
def test_an_application_is_started_with_what_was_asked_for(meal: Meal) -> None:
    assert parse_request(Meal, ["--archive", "a", *meal.to_arguments(), "--run", "r"]) == meal


def test_what_is_as_usual_is_not_said() -> None:
    assert Meal().to_arguments() == []
    assert Meal(is_hot=False, to_go=True, sides=("a", "b")).to_arguments() == [
        *("--sides", "a", "--sides", "b", "--no-is-hot", "--to-go")
    ]


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ({"guests": "3", "sides": "a", "to_go": "True"}, Meal(guests=3, sides=("a",), to_go=True)),
        ({"guests": "None", "sides": "['a', 'b']", "is_hot": "False"}, Meal(sides=("a", "b"), is_hot=False)),
        ({"guests": "", "sides": None, "kitchen": "None"}, Meal()),
    ],
)
def test_a_template_and_a_form_leave_words(words: dict[str, Any], made: Meal) -> None:
    assert Meal.given(**words).model_dump() == made.model_dump()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"dish": "cake"}, "dish is 'cake': write one of soup, salad"),
        ({"guests": "few"}, "guests is 'few': write a whole number"),
        ({"sides": [1]}, "sides has 1 in it: write strings only"),
        ({"drink": "tea"}, "drink: Extra inputs are not permitted"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_by_its_name(words: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Meal.given(**words)


def test_only_what_nobody_has_given_is_filled_in() -> None:
    made = Meal(guests=2).filled(guests=5, sides=("a",), kitchen="ours")
    assert (made.guests, made.sides, made.kitchen) == (2, ("a",), "ours")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_options_of_its_request(name: str) -> None:
    there = {flag for parameter in load(name).params for flag in parameter.opts}
    assert {field.flag for field in COMMANDS[name].options() if field.option.is_in_command} <= there


@pytest.mark.parametrize("request_type", [*COMMANDS.values()])
def test_each_option_has_a_help_that_is_a_sentence(request_type: type[Request]) -> None:
    for field in request_type.options():
        assert field.option.help.endswith(".")


def test_a_new_stream_is_begun_when_asked_or_configured() -> None:
    assert BackupRequest(source="s").restart == "no"
    assert set(get_args(BackupRequest.model_fields["kind"].annotation)) == {"auto", "full", "changes"}
