"""The way to the store passes requests on, fails as the weather says, and records what is asked of locks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from soak.journal import Journal, named, read
from soak.store_proxy import CALM, StoreProxy, Weather, proxied
from tests.support.stores.failing_server import Answer, FailingServer, failing_server

BODY = "<answer/>" * 50


@pytest.fixture
def server() -> Iterator[FailingServer]:
    with failing_server() as server:
        server.answer = Answer(200, BODY)
        yield server


@pytest.fixture
def proxy(server: FailingServer, tmp_path: Path) -> Iterator[StoreProxy]:
    with proxied(server.server_address[1], Journal(tmp_path, "proxy"), seed=1) as proxy:
        yield proxy


@dataclass(frozen=True)
class Answered:
    status: int
    body: bytes
    date: float


def ask(proxy: StoreProxy, method: str, path: str, body: str | None = None) -> Answered:
    with closing(HTTPConnection("127.0.0.1", proxy.port, timeout=10)) as connection:
        connection.request(method, path, body)
        with connection.getresponse() as answer:
            told = answer.headers["Date"]
            return Answered(answer.status, answer.read(), parsedate_to_datetime(told).timestamp() if told else 0.0)


def test_a_calm_way_changes_nothing(proxy: StoreProxy, server: FailingServer) -> None:
    answer = ask(proxy, "GET", "/near/soak/archive.json")
    assert (answer.status, answer.body.decode()) == (200, BODY)
    assert ask(proxy, "HEAD", "/near/soak/archive.json").body == b""
    assert server.paths == ["/near/soak/archive.json"] * 2
    assert proxy.weather == CALM


def test_503_is_an_answer_without_a_request(proxy: StoreProxy, server: FailingServer) -> None:
    proxy.weather = Weather(busy=1.0)
    assert ask(proxy, "PUT", "/near/a", "x").status == 503
    assert (server.count, proxy.failed["busy"]) == (0, 1)


@pytest.mark.parametrize(("weather", "count"), [(Weather(cut=1.0), 0), (Weather(lost=1.0), 1)])
def test_a_cut_comes_before_or_behind_the_request(
    proxy: StoreProxy, server: FailingServer, weather: Weather, count: int
) -> None:
    proxy.weather = weather
    with pytest.raises((OSError, HTTPException)):
        ask(proxy, "PUT", "/near/a", "x")
    assert server.count == count


def test_a_torn_answer_ends_in_its_middle(proxy: StoreProxy) -> None:
    proxy.weather = Weather(torn=1.0)
    with pytest.raises((OSError, HTTPException)):
        ask(proxy, "GET", "/near/a")


def test_the_stores_clock_is_as_wrong_as_told(proxy: StoreProxy) -> None:
    right = ask(proxy, "GET", "/near/a").date
    proxy.set_clock(-600)
    assert -601 <= ask(proxy, "GET", "/near/a").date - right <= -590


def test_requests_about_locks_are_recorded_with_their_fate(proxy: StoreProxy, tmp_path: Path) -> None:
    ask(proxy, "PUT", "/near/soak/locks/history/WRIT.a%2B", "{}")
    ask(proxy, "GET", "/near/soak/locks/history/WRIT.a")
    proxy.weather = Weather(lost=1.0)
    with pytest.raises((OSError, HTTPException)):
        ask(proxy, "DELETE", "/near/soak/locks/history/WRIT.a")
    found = named(read(tmp_path), "lock request")
    assert [(each["method"], each["path"].rpartition("/")[2], each["fate"], each["body"]) for each in found] == [
        ("PUT", "WRIT.a+", "", "{}"),
        ("DELETE", "WRIT.a", "lost", ""),
    ]
    assert all(each["at"] <= each["ended"] for each in found)
