"""Sections of archives.yaml: what one does not know is refused, with the key that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.common.words import nearest
from holdfast.config.archives_model import Section, ShortSpan, Span


class Shop(Section):
    """A section."""

    opens: int = 8
    closes: int = 18
    name: str | None = None


def test_a_section_is_read_and_not_changed_any_more() -> None:
    shop = Shop.model_validate({"opens": 9})
    assert (shop.opens, shop.closes, shop.name) == (9, 18, None)
    with pytest.raises(ValidationError, match="frozen"):
        shop.opens = 10


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"open": 9}, "unknown key 'open'; did you mean 'opens'?"),
        ({"clsoes": 9, "opens": 9}, "unknown key 'clsoes'; did you mean 'closes'?"),
        ({"zzz": 9}, "unknown key 'zzz'; known: opens, closes, name"),
        ({3: 9}, "unknown key '3'; known: opens, closes, name"),
        ({None: 9}, "unknown key 'None'"),
    ],
)
def test_an_unknown_key_is_named_with_what_was_meant(given: dict[Any, int], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Shop.model_validate(given)
    (error,) = refused.value.errors()
    assert error["msg"].startswith(said)


@pytest.mark.parametrize("given", [{"opens": "9"}, {"opens": 9.0}, {"opens": True}, {"name": 3}, 3, None, [], "opens"])
def test_values_of_another_type_are_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Shop.model_validate(given)


@pytest.mark.parametrize(
    ("name", "said"), [("shp", "; did you mean 'shop'?"), ("shop", "; did you mean 'shop'?"), ("x", ""), ("", "")]
)
def test_the_nearest_known_name_is_asked_for(name: str, said: str) -> None:
    assert nearest(name, ["shop", "crm"]) == said
    assert nearest(name, []) == ""


@pytest.mark.parametrize(
    ("text", "short"),
    [("15m", "15min"), ("1.5 m", "1.5 min"), ("15min", "15min"), ("30s", "30s"), ("2 h", "2 h"), ("7d", "7d")],
)
def test_minutes_may_be_written_short_where_nobody_counts_months(text: str, short: str) -> None:
    assert TypeAdapter(ShortSpan).validate_python(text) == short
    if text == short:
        assert TypeAdapter(Span).validate_python(text) == text
    else:
        with pytest.raises(ValidationError):
            TypeAdapter(Span).validate_python(text)


@pytest.mark.parametrize("text", ["", "15", "m", "soon", "-1h", "1h 5m", "1y", "1M"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    for kind in (Span, ShortSpan):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(text)
