"""The page's address, as a browser needs it."""

from __future__ import annotations

import pytest

from holdfast_airflow.page.address import page_address


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("", "/holdfast/"),
        ("/", "/holdfast/"),
        ("http://localhost:8080", "/holdfast/"),
        ("https://tools.example/airflow/", "/airflow/holdfast/"),
        ("https://tools.example/a/b", "/a/b/holdfast/"),
    ],
)
def test_it_is_behind_the_path_of_airflow(monkeypatch: pytest.MonkeyPatch, base: str, address: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert page_address() == address


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ({"archive": "shop", "run": "r 1"}, "?archive=shop&run=r+1"),
        ({"archive": "x&run=y#z"}, "?archive=x%26run%3Dy%23z"),
        ({"dag": "{DAG_ID}"}, "?dag={DAG_ID}"),
    ],
)
def test_values_cannot_change_it_and_airflows_own_marks_stay(query: dict[str, str], asked: str) -> None:
    assert page_address(**query) == f"/holdfast/{asked}"
