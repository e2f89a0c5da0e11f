"""Arguments of operators: the options of their requests, and lengths of time."""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import UsageError
from holdfast.common.units import parse_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.operations.requests.base import OptionField, Request


def add_arguments(operator: type[Any], request_type: type[Request], defaults: Mapping[str, Any]) -> None:
    """Add a documented template field for each option, unless the operator has it.

    :param defaults: of arguments, where they are not those of the request.
    """
    init = operator.__init__
    named = inspect.signature(init).parameters
    fields = [field for field in _fields(request_type) if field.operator not in named]
    operator.template_fields = (*operator.template_fields, *(field.operator for field in fields))
    operator.__init__ = _taking(init, fields, defaults)
    lines = [f":param {field.operator}: {field.option.help} (templated)" for field in fields]
    operator.__doc__ = "\n".join([inspect.cleandoc(operator.__doc__ or ""), "", *lines])


def request_of(operator: Any, request_type: type[Request]) -> Any:
    """Return the request that an operator's arguments make.

    :raises UsageError: an option has no such value; says which it may have.
    """
    return request_type.given(**{field.name: getattr(operator, field.operator) for field in _fields(request_type)})


def _fields(request_type: type[Request]) -> list[OptionField]:
    return [field for field in request_type.options() if field.operator]


def _taking(init: Callable[..., None], fields: list[OptionField], defaults: Mapping[str, Any]) -> Callable[..., None]:
    kind, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    signature = inspect.signature(init)
    own = list(signature.parameters.values())
    rest = [parameter for parameter in own if parameter.kind is inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(
            field.operator, kind, default=empty if field.is_needed else defaults.get(field.name, field.default)
        )
        for field in fields
    ]

    @functools.wraps(init)
    def take(self: Any, *args: Any, **kwargs: Any) -> None:
        given = {parameter.name: kwargs.pop(parameter.name, parameter.default) for parameter in added}
        if missing := [name for name, value in given.items() if value is empty]:
            raise TypeError(f"missing keyword argument '{missing[0]}'")
        init(self, *args, **kwargs)
        for name, value in given.items():
            setattr(self, name, value)

    parameters = [*(parameter for parameter in own if parameter not in rest), *added, *rest]
    take.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return take


Span = timedelta | str | float
"""A length of time: as such, in words such as `90 min`, or in seconds; a template may give either of the last two."""


def span(given: Span) -> timedelta:
    """Return a length of time.

    :raises UsageError: the words say none, or the seconds are below 0 or too many.
    """
    if isinstance(given, timedelta):
        return given
    try:
        seconds = float(given)
    except ValueError:
        return parse_span(str(given))
    if not 0 <= seconds <= timedelta.max.total_seconds():
        raise UsageError(f"{given} is no number of seconds")
    return timedelta(seconds=seconds)


def check_spans(**given: object) -> None:
    """Refuse arguments that are no lengths of time, when the DAG is parsed; templates pass.

    :param given: the arguments by name; those of other types, such as another task's result, are left alone.
    """
    for name, value in given.items():
        if isinstance(value, int | float) or (isinstance(value, str) and "{{" not in value and "{%" not in value):
            try:
                span(value)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
