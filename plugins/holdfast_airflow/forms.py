"""Forms of DAGs: their fields, from the options of requests."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from holdfast.operations.requests.base import OptionField, Request

NO_VALUE: Any = Param().value
"""Airflow's mark of a param without a default."""

_FITTING: dict[tuple[str, str], bool] = {}
"""Whether a value fits a schema, by both as text."""


class FormField(Param):
    """Param whose default is compared with its schema once in a process.

    Airflow compares them when a DAG is made, and three times for each task when it is stored: half of the time that
    DAG files took. Airflow also copies each param for each class of an operator; copies of this one share the schema.
    """

    @classmethod
    def of(cls, param: Param) -> FormField:
        return cls(param.value, param.description, param.source, schema=param.schema)

    def __copy__(self) -> FormField:
        return self.of(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FormField:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        if isinstance(self.value, list | dict):
            made.value = copy.deepcopy(self.value, memo)
        return made

    def resolve(self, value: Any = NO_VALUE, suppress_exception: bool = False) -> Any:
        if value is not NO_VALUE or isinstance(self.value, type(NO_VALUE)):
            return super().resolve(value, suppress_exception)
        key = (repr(self.value), repr(self.schema))
        if key not in _FITTING:
            try:
                super().resolve()
                _FITTING[key] = True
            except ParamValidationError:
                _FITTING[key] = False
        if _FITTING[key]:
            return self.value
        return None if suppress_exception else super().resolve()


# Airflow stores a param by this name as it is, and takes all others to be plain values.
FormField.__module__, FormField.__name__ = Param.__module__, Param.__name__


def form_of(request_type: type[Request], **defaults: Any) -> dict[str, Param]:
    """Return the form's fields for a request's options, by name; `defaults` replace the request's."""
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
