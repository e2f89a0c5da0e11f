"""Metrics over HTTP: the newest text at once, on loopback unless told otherwise, until ended."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.metrics.catalogue import sample
from holdfast.metrics.collect import Collected
from holdfast.metrics.serving import ListenAddress, MetricsServer, serve
from tests.support.servers.scraping import scrape

FREE = ListenAddress("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9464", "127.0.0.1", 9464),
        (":9464", "127.0.0.1", 9464),
        ("0.0.0.0:1", "0.0.0.0", 1),  # noqa: S104 - nothing listens there
        ("[::1]:9464", "::1", 9464),
        ("example:0", "example", 0),
    ],
)
def test_an_address_is_on_loopback_unless_it_says_a_host(text: str, host: str, port: int) -> None:
    assert ListenAddress.parse(text) == ListenAddress(host, port)


@pytest.mark.parametrize("text", ["", "host", "host:", "1:2:3", "host:70000", "a b:1", "::1:9464"])
def test_what_is_no_address_says_how_one_looks(text: str) -> None:
    with pytest.raises(UsageError, match=r"such as 127\.0\.0\.1:9464"):
        ListenAddress.parse(text)


def test_the_newest_text_is_served_and_nothing_else() -> None:
    with MetricsServer(FREE) as server:
        assert scrape(server.url)[0] == 503
        server.publish(b"one 1\n")
        server.publish(b"two 2\n")
        assert scrape(server.url) == (200, "text/plain; version=0.0.4; charset=utf-8", "two 2\n")
        assert scrape(server.url, "/metrics?name[]=x")[0] == 200
        assert scrape(server.url, "/")[0] == 404
        assert scrape(server.url, method="POST")[0] == 501


def test_a_port_that_is_taken_is_said() -> None:
    with MetricsServer(FREE) as server:
        taken = ListenAddress("127.0.0.1", urlsplit(server.url).port or 0)
        with pytest.raises(HoldfastError, match=r"cannot listen at .*Address already in use\. Choose another port"):
            MetricsServer(taken).__enter__()
    with MetricsServer(taken):  # it was given back
        pass


def test_a_host_that_is_none_is_said() -> None:
    with pytest.raises(HoldfastError, match=r"cannot listen at 192\.0\.2\.1"):
        MetricsServer(ListenAddress("192.0.2.1", 0)).__enter__()


def ended_after(rounds: int, seen: Callable[[], None]) -> Callable[[float], None]:
    """Return a pause in which somebody looks, and which ends the last time as a signal does."""
    left = iter(range(rounds))

    def pause(seconds: float) -> None:
        assert seconds == 60
        seen()
        if next(left) == rounds - 1:
            raise KeyboardInterrupt

    return pause


def test_it_is_collected_once_in_each_round_however_many_ask_and_problems_are_said_once() -> None:
    rounds = [
        Collected([sample("holdfast_archive_up", 0, "shop")], ["archive shop cannot be read"]),
        Collected([sample("holdfast_archive_up", 0, "shop")], ["archive shop cannot be read"]),
        Collected([sample("holdfast_archive_up", 1, "shop")]),
    ]
    said: list[str] = []
    texts: list[str] = []
    collecting = iter(rounds)

    def look() -> None:
        url = said[0].split()[2].rstrip(",")
        texts.extend(scrape(url)[2].splitlines()[-1] for _ in range(2))

    with pytest.raises(KeyboardInterrupt):
        serve(FREE, lambda: next(collecting), every_s=60, say=said.append, pause=ended_after(3, look))
    up = 'holdfast_archive_up{archive="shop"}'
    assert texts == [f"{up} 0.0"] * 4 + [f"{up} 1.0"] * 2
    assert said[0].endswith("collected every 60 s")
    assert said[1:] == ["archive shop cannot be read", "everything can be read again"]


def test_it_goes_on_where_a_collection_fails_and_the_old_text_stays() -> None:
    said: list[str] = []
    texts: list[tuple[int, str, str]] = []
    collecting = iter([Collected([sample("holdfast_archive_up", 1, "shop")]), None])

    def collected() -> Collected:
        found = next(collecting)
        if found is None:
            raise UsageError("archives.yaml has a mistake")
        return found

    def look() -> None:
        texts.append(scrape(said[0].split()[2].rstrip(",")))

    with pytest.raises(KeyboardInterrupt):
        serve(FREE, collected, every_s=60, say=said.append, pause=ended_after(2, look))
    assert said[1:] == ["the metrics could not be collected: archives.yaml has a mistake"]
    assert texts[0] == texts[1]
    assert texts[0][0] == 200
