"""The request for a vacuum: how long files stay that were removed."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from holdfast.common.errors import UsageError
from holdfast.operations.requests.vacuum import VacuumRequest

(GRACE,) = (field for field in VacuumRequest.options() if field.name == "grace")
PATTERN = str(dict(GRACE.option.schema)["pattern"])


@pytest.mark.parametrize(
    ("grace", "span"),
    [
        (None, timedelta(hours=24)),
        ("90 min", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("1.5h", timedelta(minutes=90)),
        ("0s", timedelta(0)),
    ],
)
def test_files_stay_for_a_day_or_as_long_as_is_said(grace: str | None, span: timedelta) -> None:
    assert VacuumRequest.given(grace=grace).span == span
    assert grace is None or re.search(PATTERN, grace)


@pytest.mark.parametrize("grace", ["soon", "24", "-1h", "1y", "1h 5min"])
def test_what_is_no_length_of_time_is_refused_and_no_form_takes_it(grace: str) -> None:
    assert not re.search(PATTERN, grace)
    with pytest.raises(UsageError, match=f"^cannot read '{grace}' as a length of time"):
        VacuumRequest.given(grace=grace)
