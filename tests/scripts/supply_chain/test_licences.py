"""No package that runs at users' places has a licence that is not allowed, or none."""

from __future__ import annotations

from email.message import Message
from typing import Any, cast

import pytest
import yaml

from scripts.supply_chain.licences import (
    PAGE,
    RULES,
    UNKNOWN,
    Rules,
    is_allowed,
    licence_of,
    page,
    read_rules,
    refused,
    runtime,
)

RULES_OF_TEST = Rules(frozenset({"MIT", "Apache-2.0"}), {"MIT License": "MIT"}, {"known": "MIT"})


def metadata(**fields: str) -> Any:
    made = Message()
    for name, value in fields.items():
        made[name.replace("_", "-")] = value
    return cast("Any", made)


@pytest.mark.parametrize(
    ("said", "licence"),
    [
        ({"License_Expression": "MIT OR Apache-2.0"}, "MIT OR Apache-2.0"),
        ({"License": "MIT License"}, "MIT"),
        ({"License": "a whole text", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "Proprietary words"}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_a_licence_is_read_from_what_a_package_says(said: dict[str, str], licence: str) -> None:
    assert licence_of("some", metadata(**said), RULES_OF_TEST) == licence


def test_a_package_that_is_known_better_or_not_here() -> None:
    assert licence_of("known", metadata(License="nonsense"), RULES_OF_TEST) == "MIT"
    assert licence_of("absent", None, RULES_OF_TEST) == UNKNOWN


@pytest.mark.parametrize(
    ("expression", "is_so"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", True),
        ("GPL-3.0-only", False),
        (UNKNOWN, False),
        ("Some Words", False),
    ],
)
def test_of_alternatives_one_must_be_allowed_and_of_parts_all(expression: str, is_so: bool) -> None:
    assert is_allowed(expression, RULES_OF_TEST) == is_so


def test_every_package_of_the_image_has_a_licence_that_is_allowed() -> None:
    assert refused(read_rules(RULES)) == []


def test_the_page_of_licences_is_up_to_date() -> None:
    assert PAGE.read_text() == page(read_rules(RULES))


def test_what_is_stated_of_packages_is_of_packages_in_the_image_and_has_a_reason() -> None:
    said = yaml.safe_load(RULES.read_text())["packages"]
    assert said.keys() <= {pin.name for pin in runtime()}
    assert all(each["why"] for each in said.values())
