"""Options of a command by the fields of a request: each is offered as it is defined there, and nothing else."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import click
import pytest
import typer
from pydantic import AfterValidator
from typer.testing import CliRunner

from holdfast.cli.shared.request_options import takes
from holdfast.common.errors import UsageError
from holdfast.operations.requests.base import Option, Request


class Meal(Request):
    """A request with an option of each kind."""

    operation: ClassVar[str] = "meal"

    dish: Annotated[Literal["soup", "salad"], Option("Which.")] = "soup"
    guests: Annotated[int, Option("How many.", least=1)]
    price: Annotated[float | None, Option("At most.", metavar="EURO")] = None
    sides: Annotated[tuple[str, ...], Option("What with it.", flag="--side")] = ()
    is_hot: Annotated[bool, Option("Warm it.")] = True
    to_go: Annotated[bool, Option("Wrap it.")] = False
    size: Annotated[str | None, Option("How large.", schema=(("enum", ["small", "large"]),))] = None
    secret: Annotated[str, Option("For forms.", is_in_command=False)] = "none"
    kitchen: str | None = None


def refuse(word: str) -> str:
    if word == "this":
        raise ValueError("not this one")
    return word


@pytest.fixture
def served() -> list[tuple[str, Meal, bool]]:
    return []


@pytest.fixture
def app(served: list[tuple[str, Meal, bool]]) -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None, add_completion=False)

    @made.command()
    @takes(Meal)
    def serve(where: str, request: Meal, slow: Annotated[bool, typer.Option("--slow")] = False) -> None:
        """Serve a meal."""
        served.append((where, request, slow))

    return made


@pytest.mark.parametrize(
    ("words", "meal"),
    [
        ([], Meal(guests=2)),
        (["--dish", "salad", "--price", "1.5"], Meal(guests=2, dish="salad", price=1.5)),
        (["--side", "rice", "--side", "beans"], Meal(guests=2, sides=("rice", "beans"))),
        (["--no-is-hot", "--to-go"], Meal(guests=2, is_hot=False, to_go=True)),
        (["--size", "large"], Meal(guests=2, size="large")),
    ],
)
def test_the_request_is_made_of_the_options(
    app: typer.Typer, served: list[tuple[str, Meal, bool]], words: list[str], meal: Meal
) -> None:
    done = CliRunner().invoke(app, ["here", "--guests", "2", *words, "--slow"])
    assert done.exit_code == 0, done.output
    assert served == [("here", meal, True)]
    # What nobody has said is left to archives.yaml.
    said = {"--dish": {"dish", "price"}, "--side": {"sides"}, "--size": {"size"}}.get(words[0] if words else "", set())
    assert served[0][1].model_fields_set >= {"guests", *said}
    assert served[0][1].model_fields_set.isdisjoint({"price", "size", "secret", "kitchen"} - said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing option '--guests'"),
        (["--guests", "0"], "greater than or equal to 1"),
        (["--guests", "two"], "valid integer"),
        (["--guests", "1", "--dish", "cake"], "'cake' is not one of 'soup', 'salad'"),
        (["--guests", "1", "--size", "huge"], "'huge' is not one of 'small', 'large'"),
        (["--guests", "1", "--secret", "x"], "No such option: --secret"),
        (["--guests", "1", "--kitchen", "x"], "No such option: --kitchen"),
        (["--guests", "1", "--request", "x"], "No such option: --request"),
        (["--guests", "1", "--is-hot"], "No such option: --is-hot"),
    ],
)
def test_what_the_request_does_not_offer_is_wrong_usage(app: typer.Typer, words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["here", *words])
    assert done.exit_code == 2
    assert said in done.output


def test_help_is_that_of_the_fields_in_their_order_and_place(app: typer.Typer) -> None:
    command = typer.main.get_command(app)
    assert command.help == "Serve a meal."
    options = [each for each in command.params if isinstance(each, click.Option) or each.param_type_name == "option"]
    assert [each.opts[0] for each in options] == [
        "--dish", "--guests", "--price", "--side", "--no-is-hot", "--to-go", "--size", "--slow",
    ]  # fmt: skip
    assert [getattr(each, "help", None) for each in options][:3] == ["Which.", "How many.", "At most."]
    assert [each.metavar for each in options][:3] == [None, None, "EURO"]


class Picky(Request):
    """A request that looks at its value."""

    operation: ClassVar[str] = "picky"

    word: Annotated[str, Option("Any but one."), AfterValidator(refuse)] = "that"


def test_a_value_that_the_request_refuses_is_said_by_its_name() -> None:
    found: list[str] = []

    @takes(Picky)
    def say(request: Picky) -> None:
        found.append(request.word)

    with pytest.raises(UsageError, match=r"^word: .* not this one"):
        say(word="this")
    assert found == []
    say(word="other")
    assert found == ["other"]
