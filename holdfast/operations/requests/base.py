"""The base model of requests: its fields define options, forms and the arguments of applications."""

from __future__ import annotations

import argparse
import types
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

from holdfast.common.errors import UsageError
from holdfast.common.units import parse_bandwidth, parse_budget, parse_size, parse_span
from holdfast.common.words import is_yes, listed, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NOT_GIVEN = ("", "None")
"""Values of templates and forms for an option that is not given."""


@dataclass(frozen=True)
class Option:
    """The definition of a request's field as an option.

    :param flag, title, operator: its names on the command line, in the form and as the operator's argument, if they
        differ from the field's; an operator of "" has no such argument.
    :param least: the smallest number.
    :param schema: further JSON schema of the form's field.
    :param is_in_command, is_in_form: whether the command and the DAG's form offer it.
    """

    help: str
    metavar: str | None = None
    flag: str = ""
    title: str = ""
    least: int | None = None
    schema: tuple[tuple[str, Any], ...] = ()
    operator: str | None = None
    is_in_command: bool = True
    is_in_form: bool = True


NO_LOCK = Option(
    "Write nothing to the archive, not even a lock, for users with read-only access. A vacuum may delete files "
    "meanwhile.",
    operator="",
    is_in_form=False,
)
"""For operations that only read; without a lock they rely on the grace of a vacuum, and fail after it."""

SCHEMA = Option(
    "The schema, if it was changed between two backups at an unknown time: the one before, the one after, or the "
    "better one.",
    flag="--schema",
    title="Schema",
    operator="schema",
)


@dataclass(frozen=True)
class OptionField:
    """One option of a request, with its place in the model.

    :param kind: `bool`, `int`, `float`, `str`, or `tuple` for a list of strings.
    :param choices: all values, if they are limited.
    :param is_optional: whether None is a value.
    """

    name: str
    option: Option
    kind: type
    choices: tuple[str, ...]
    is_optional: bool
    default: Any

    @property
    def flag(self) -> str:
        """Return its name on the command line; of an option that is on by default, the one that turns it off."""
        return _flag(self.name, self.option, is_forbidding=self.kind is bool and self.default is True)

    @property
    def word(self) -> str:
        """Return its name in a form."""
        return self.option.flag.removeprefix("--").replace("-", "_") or self.name

    @property
    def is_needed(self) -> bool:
        return self.default is None and not self.is_optional

    @property
    def operator(self) -> str:
        return self.name if self.option.operator is None else self.option.operator


def _checked(parse: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


Span = Annotated[str, _checked(parse_span)]
Size = Annotated[str, _checked(parse_size)]
Bandwidth = Annotated[str, _checked(parse_bandwidth)]
Budget = Annotated[str, _checked(parse_budget)]
"""Amounts as people write them; the text travels as it is."""


class Request(BaseModel):
    """The options of one run of an operation, beside the archive and the run's name.

    A field is an option if its annotation has an `Option`; others come from the configuration alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: ClassVar[str]

    @classmethod
    @cache
    def options(cls) -> tuple[OptionField, ...]:
        """Return the options, in the order of the fields."""
        return tuple(
            _field(name, option, field.annotation, None if field.is_required() else field.get_default())
            for name, field in cls.model_fields.items()
            if (option := _option(field.metadata))
        )

    @model_validator(mode="before")
    @classmethod
    def _from_words(cls, data: Any) -> Any:
        return {name: _read(cls, name, value) for name, value in data.items()} if isinstance(data, dict) else data

    @classmethod
    def given(cls, **options: Any) -> Self:
        """Return a request of the given options; raises UsageError for an invalid value."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise UsageError("; ".join(_sentence(cls, each) for each in error.errors())) from None

    def to_arguments(self) -> list[str]:
        """Return the arguments of the operation's application."""
        words: list[str] = []
        for name, field in type(self).model_fields.items():
            value, default = getattr(self, name), field.get_default()
            if value == default:
                continue
            flag = _flag(name, _option(field.metadata), is_forbidding=default is True)
            if isinstance(value, bool):
                words.append(flag)
            elif isinstance(value, tuple):
                words += [word for each in value for word in (flag, str(each))]
            else:
                words += [flag, str(value)]
        return words

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        """Add the application's arguments to a parser, whose result has only those that are given."""
        for name, field in cls.model_fields.items():
            kind, choices, _ = _shape(field.annotation)
            default = field.get_default()
            flag, absent = _flag(name, _option(field.metadata), is_forbidding=default is True), argparse.SUPPRESS
            if kind is bool:
                parser.add_argument(flag, dest=name, action="store_const", const=not default, default=absent)
            elif kind is tuple:
                parser.add_argument(flag, dest=name, action="append", default=absent)
            else:
                needed = field.is_required()
                parser.add_argument(
                    flag, dest=name, type=kind, choices=choices or None, required=needed, default=absent
                )

    def filled(self, **values: Any) -> Self:
        """Return the request with values for its empty options."""
        missing = {name: value for name, value in values.items() if getattr(self, name) in (None, ())}
        return type(self).given(**{**self._set(), **missing})

    def with_values(self, **values: Any) -> Self:
        """Return the request with other values."""
        return type(self).given(**{**self._set(), **values})

    def _set(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}


def _option(metadata: Sequence[Any]) -> Option | None:
    return next((each for each in metadata if isinstance(each, Option)), None)


def _flag(name: str, option: Option | None, *, is_forbidding: bool) -> str:
    said = option.flag if option else ""
    return said or f"--{'no-' if is_forbidding else ''}{name.replace('_', '-')}"


def _field(name: str, option: Option, annotation: Any, default: Any) -> OptionField:
    kind, choices, is_optional = _shape(annotation)
    return OptionField(name, option, kind, choices, is_optional, default)


def _shape(annotation: Any) -> tuple[type, tuple[str, ...], bool]:
    """Return the kind of an annotation's values, the choices, and whether None is a value."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(parts[0])
    if origin in (Union, types.UnionType):
        kind, choices, _ = _shape(next(part for part in parts if part is not type(None)))
        return kind, choices, True
    if origin is Literal:
        return str, parts, False
    return (tuple if origin is tuple else annotation), (), False


def _read(request: type[Request], name: str, value: Any) -> Any:
    field = request.model_fields.get(name)
    if field is None:
        return value
    kind, _, is_optional = _shape(field.annotation)
    if kind is bool:
        return is_yes(value)
    if kind is tuple:
        return tuple(listed(value, name))
    if is_optional and (value is None or value in _NOT_GIVEN):
        return None
    return number(value, name) if kind is int else value


def _sentence(request: type[Request], error: Any) -> str:
    name = str(error["loc"][0]) if error["loc"] else request.operation
    if error["type"] == "literal_error":
        choices = _shape(request.model_fields[name].annotation)[1]
        return f"{name} is {error['input']!r}: write one of {', '.join(choices)}"
    return f"{name}: {error['msg']}"
