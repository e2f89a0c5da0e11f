"""Base of the sections of archives.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.common.units import SHORT_SPAN, SPAN
from holdfast.common.words import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Span = Annotated[str, StringConstraints(pattern=SPAN)]


def _in_minutes(text: str) -> str:
    return text.replace("m", "min") if text.endswith("m") else text


ShortSpan = Annotated[str, StringConstraints(pattern=SHORT_SPAN), AfterValidator(_in_minutes)]
"""A length of time that is never in months, so that `15m` is as many minutes."""


class Section(BaseModel):
    """A part of the file: immutable, strict, and it knows its own keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse unknown keys beside all other mistakes, so that one look at the file finds them all."""
        unknown = [key for key in data if key not in cls.model_fields] if isinstance(data, Mapping) else []
        if not unknown:
            return handler(data)
        mistakes = [InitErrorDetails(type=cls._unknown(key), loc=(), input=data) for key in unknown]
        try:
            handler({key: value for key, value in data.items() if key not in unknown})
        except ValidationError as error:
            mistakes += [_line_error(mistake) for mistake in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(cls.__name__, mistakes)

    @classmethod
    def _unknown(cls, key: str) -> PydanticCustomError:
        hint = nearest(str(key), cls.model_fields) or f"; known: {', '.join(cls.model_fields)}"
        return PydanticCustomError("unknown_key", "unknown key '{key}'{hint}", {"key": key, "hint": hint})


def _line_error(mistake: ErrorDetails) -> InitErrorDetails:
    """Return a mistake in the form in which it can be raised."""
    context = {**mistake.get("ctx", {}), "message": mistake["msg"]}
    kind = PydanticCustomError(mistake["type"], "{message}", context)
    return InitErrorDetails(type=kind, loc=mistake["loc"], input=mistake["input"])
