"""The largest value that is backed up, as the environment says."""

from __future__ import annotations

import pytest

from holdfast.common.errors import UsageError
from holdfast.common.value_limit import MAX_VALUE_BYTES, MAX_VALUE_VARIABLE, max_value_bytes


def test_the_variable_counts_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MAX_VALUE_VARIABLE, raising=False)
    assert max_value_bytes() == MAX_VALUE_BYTES
    monkeypatch.setenv(MAX_VALUE_VARIABLE, "77")
    assert max_value_bytes() == 77


@pytest.mark.parametrize("said", ["", "0", "-1", "1 GB", "1e9"])
def test_what_is_no_number_of_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(MAX_VALUE_VARIABLE, said)
    with pytest.raises(UsageError, match="write a number of bytes, such as"):
        max_value_bytes()
