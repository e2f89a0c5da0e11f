"""Operators' arguments and forms' fields, from a request's options."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import DAG

    from holdfast.operations.requests.base import OptionField, Request


def add_arguments(operator: type[Any], request_type: type[Request], defaults: Mapping[str, Any]) -> None:
    """Add an argument of the operator for each option.

    Each is a template field with a line of documentation.

    An argument that the class has already stays as it is.

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


def form_of(request_type: type[Request], **defaults: Any) -> dict[str, Param]:
    """Return the fields of a form for the options of a request, by name.

    :param defaults: of fields, where they are not those of the request.
    """
    offered = [field for field in request_type.options() if field.option.is_in_form]
    params = {field.word: defaults.get(field.word, _form_default(field)) for field in offered}
    return {
        field.word: Param(
            params[field.word], **_schema(field, may_be_empty=field.is_optional and params[field.word] is None)
        )
        for field in offered
    }


def from_form(dag: DAG, request_type: type[Request]) -> dict[str, Any]:
    """Return the arguments of an operator that a form's fields give."""
    return {
        field.operator: dag.param(field.word)
        for field in request_type.options()
        if field.option.is_in_form and field.operator
    }


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


def _form_default(field: OptionField) -> Any:
    return [] if field.kind is tuple else field.default


def _schema(field: OptionField, *, may_be_empty: bool) -> dict[str, Any]:
    """Return the JSON schema of a form's field.

    With null, since the form marks a field as required that has no such type.
    """
    option = field.option
    schema: dict[str, Any] = {
        "title": option.title or field.word.replace("_", " ").capitalize(),
        "description": option.help,
    }
    if field.choices:
        schema["enum"] = [*([None] if may_be_empty else []), *field.choices]
    elif field.kind is tuple:
        schema |= {"type": ["null", "array"], "items": {"type": "string", "minLength": 1}}
    else:
        name = {bool: "boolean", int: "integer", str: "string"}[field.kind]
        schema["type"] = ["null", name] if may_be_empty else name
    if option.least is not None:
        schema["minimum"] = option.least
    return schema | dict(option.schema)
