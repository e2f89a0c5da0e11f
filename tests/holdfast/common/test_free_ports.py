"""Free ports lie where the system takes none for outgoing connections."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.common.free_ports import free_port


def test_a_free_port_can_be_listened_on_and_is_given_to_no_connection(tmp_path: Path) -> None:
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert connection.getsockname()[1] > port


def test_a_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        choices = iter(range(number - 15_000, 65_536))
        monkeypatch.setattr("secrets.randbelow", lambda limit: next(choices))
        assert free_port() != number


@pytest.mark.parametrize("said", ["1024 65535", "", "nothing"])
def test_a_port_is_found_whatever_the_system_says_of_its_range(said: str, tmp_path: Path) -> None:
    (tmp_path / "range").write_text(said)
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port(tmp_path / "range")))
