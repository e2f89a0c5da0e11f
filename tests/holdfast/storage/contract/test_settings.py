"""What the environment says of listings, whichever store it is."""

from __future__ import annotations

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage import open_store
from holdfast.storage.contract.settings import LISTING_ORDERED, listing_is_ordered


@pytest.mark.parametrize(("value", "ordered"), [("yes", True), ("no", False), ("", None)])
def test_listings_are_ordered_as_is_said_and_else_as_the_server_is_known_for(value: str, ordered: bool | None) -> None:
    assert listing_is_ordered({LISTING_ORDERED: value}) is ordered
    assert listing_is_ordered({}) is None


@pytest.mark.parametrize("value", ["Yes", "true", "1", " ", "yes "])
def test_any_other_value_is_refused_with_those_that_there_are(value: str) -> None:
    with pytest.raises(UsageError, match=f"^HOLDFAST_LISTING_ORDERED is '{value}'; it may be one of: yes, no.$"):
        listing_is_ordered({LISTING_ORDERED: value})


@pytest.mark.parametrize("value", ["secret\n", " secret", "sec\nret", "secret\r\n"])
@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"])
def test_a_variable_with_a_line_break_too_many_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"^{name} has a space or a line break too many: set it again") as refused:
        open_store("s3://bucket/archive")
    assert "secret" not in str(refused.value)
