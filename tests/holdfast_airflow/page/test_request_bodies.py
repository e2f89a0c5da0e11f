"""Bodies of the page's requests: a reason is one, and nothing else comes along."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from holdfast_airflow.page.changing import BreakBody, HoldBody, ReleaseBody

GOOD: dict[type[BaseModel], dict[str, Any]] = {
    BreakBody: {"reason": "why"},
    ReleaseBody: {"reason": "why"},
    HoldBody: {"reason": "why", "source": "shop_db", "at": "latest"},
}


@pytest.mark.parametrize("body", GOOD)
def test_words_are_taken_without_the_blanks_around_them(body: type[BaseModel]) -> None:
    spaced = {name: f" {value} " for name, value in GOOD[body].items()}
    assert body.model_validate(spaced).model_dump() == GOOD[body]


@pytest.mark.parametrize("body", GOOD)
@pytest.mark.parametrize("more", [{"reason": "   "}, {"reason": "x" * 501}, {"reason": None}, {"force": True}], ids=str)
def test_no_reason_a_book_of_reasons_and_what_is_not_asked_for_are_refused(
    body: type[BaseModel], more: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        body.model_validate({**GOOD[body], **more})
    assert body.model_validate({**GOOD[body], "reason": "x" * 500})


@pytest.mark.parametrize("more", [{"source": ""}, {"source": "x" * 65}, {"at": " "}, {"at": "x" * 201}], ids=str)
def test_a_hold_says_of_what_and_when(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        HoldBody.model_validate({**GOOD[HoldBody], **more})
