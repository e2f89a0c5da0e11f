"""Arguments of operators, from the options of their requests."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

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
