"""Options of a command that come from the request of its operation."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.operations.requests.base import OptionField, Request

_REQUEST = "request"


def takes(request_type: type[Request]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter `request` by the options of a request, of which its argument is made."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = {field.name: field for field in request_type.options() if field.option.is_in_command}
        hints = get_type_hints(command, include_extras=True)

        def run(**given: Any) -> None:
            made = {name: _value(field, given.pop(name)) for name, field in options.items()}
            command(**given, request=request_type.given(**{n: v for n, v in made.items() if v is not None}))

        parameters = list(_parameters(command, hints, options))
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(
    command: Callable[..., None], hints: dict[str, Any], options: dict[str, OptionField]
) -> Iterator[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    for name, parameter in inspect.signature(command).parameters.items():
        if name == _REQUEST:
            for field in options.values():
                default = inspect.Parameter.empty if field.is_needed else _default(field)
                yield inspect.Parameter(field.name, kind, default=default, annotation=_annotation(field))
        else:
            yield parameter.replace(kind=kind, annotation=hints[name])


def _default(field: OptionField) -> Any:
    if field.kind is bool:
        return False
    return None if field.kind is tuple else field.default


def _value(field: OptionField, given: Any) -> Any:
    return given is False if field.kind is bool and field.default is True else given


def _annotation(field: OptionField) -> Any:
    option = field.option
    kind: Any = list[str] if field.kind is tuple else field.kind
    if choices := dict(option.schema).get("enum", field.choices):
        kind = Literal[tuple(choices)]
    if field.is_optional or field.kind is tuple:
        kind |= None
    return Annotated[kind, typer.Option(field.flag, help=option.help, metavar=option.metavar, min=option.least)]
