"""The page's application is built by its first request, and by that alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast_airflow.page import application
from holdfast_airflow.page.lazy import LazyApplication


async def nothing(*_: Any) -> Any:
    return {}


def test_it_is_built_once_and_given_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    built, asked = [], []

    def create() -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            asked.append((scope["path"], receive, send))

        built.append(answer)
        return answer

    monkeypatch.setattr(application, "create_application", create)
    lazy = LazyApplication()
    assert built == []
    for path in ("/", "/api"):
        asyncio.run(lazy({"path": path}, nothing, nothing))
    assert asked == [("/", nothing, nothing), ("/api", nothing, nothing)]
    assert len(built) == 1


def test_one_that_cannot_be_built_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise RuntimeError("the file is away")

    monkeypatch.setattr(application, "create_application", fail)
    lazy = LazyApplication()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the file is away"):
            asyncio.run(lazy({}, nothing, nothing))
