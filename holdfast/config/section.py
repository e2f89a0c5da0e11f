"""Base of the sections of archives.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from holdfast.common.units import SHORT_SPAN, SPAN
from holdfast.common.words import nearest

Span = Annotated[str, StringConstraints(pattern=SPAN)]


def _in_minutes(text: str) -> str:
    return text.replace("m", "min") if text.endswith("m") else text


ShortSpan = Annotated[str, StringConstraints(pattern=SHORT_SPAN), AfterValidator(_in_minutes)]
"""A length of time that nobody counts in months, so that `15m` is as many minutes."""


class Section(BaseModel):
    """A part of the file: immutable, strict, and it knows its own keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        for key in data:
            if key not in cls.model_fields:
                hint = nearest(str(key), cls.model_fields) or f"; known: {', '.join(cls.model_fields)}"
                raise PydanticCustomError("unknown_key", "unknown key '{key}'{hint}", {"key": key, "hint": hint})
        return data
