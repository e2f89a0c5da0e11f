"""Somebody on the way to a database: he answers in its place, or says that it speaks no TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.server import embedded_programs
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import run
from tests.support.servers.certificates import Authority
from tests.support.servers.tls_server import MAJOR, TlsServer
from tests.support.servers.versions import programs_of

pytestmark = pytest.mark.service

SSL_REQUEST = bytes.fromhex("00000008 04d2162f")
"""What a client asks first of all. Source: PostgreSQL manual, 'Message Formats'."""


def by_psycopg(address: Address) -> None:
    connect(address).close()


def by_arrow_driver(address: Address) -> None:
    ArrowSession(address).close()


def by_pg_dump(address: Address) -> None:
    run(programs_of(MAJOR) / "pg_dump", ["--schema-only"], address)


def by_embedded_pg_dump(address: Address) -> None:
    embedded = embedded_programs()
    assert embedded is not None
    run(embedded / "pg_dump", ["--schema-only"], address)


CLIENTS = [by_psycopg, by_arrow_driver, by_pg_dump]


@contextmanager
def without_tls() -> Iterator[tuple[int, list[bytes]]]:
    """Answer every client that no TLS is spoken; yield the port, and what each of them has sent in all."""
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    got = client.recv(4096)
                    client.sendall(b"N")
                    while more := client.recv(4096):
                        got += more
                    sent.append(got)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], sent
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("mode", ["require", "verify-full"])
@pytest.mark.parametrize("client", [*CLIENTS, by_embedded_pg_dump])
def test_no_client_goes_on_in_the_clear_where_tls_is_asked_for(
    client: Callable[[Address], None], mode: str, tmp_path: Path
) -> None:
    authority = Authority.made(tmp_path)
    with without_tls() as (port, sent):
        url = f"postgresql://me@127.0.0.1:{port}/shop?sslmode={mode}&sslrootcert={authority.certificate}"
        with pytest.raises(HoldfastError, match=r"turn its ssl on|was built without TLS") as told:
            client(Address.parse(url, "s3cret"))
    assert "s3cret" not in str(told.value)
    assert sent == ([] if client is by_embedded_pg_dump else [SSL_REQUEST])


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Authority]:
    folder = tmp_path_factory.mktemp("authorities")
    return {name: Authority.made(folder, name) for name in ("own", "other")}


@pytest.fixture(scope="module")
def impostors(
    authorities: dict[str, Authority], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, TlsServer]]:
    """Servers whose certificates are not good for `localhost`, by what is wrong with them."""
    folder = tmp_path_factory.mktemp("impostors")
    own, other = authorities["own"], authorities["other"]
    with (
        TlsServer(other.server(folder, host="localhost"), own) as by_another,
        TlsServer(own.server(folder, host="elsewhere.example"), own) as of_another_name,
        TlsServer(own.server(folder, host="localhost", days=-1), own) as expired,
    ):
        yield {"authority": by_another, "name": of_another_name, "time": expired}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("authority", "is of no authority that sslrootcert names"),
        ("name", "write the name that the certificate is for, or have one made for this"),
        ("time", "the server's certificate has expired, or"),
    ],
)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("roots", ["file", pytest.param("system", marks=pytest.mark.exhaustive)])
def test_nobody_answers_in_the_place_of_a_database_whose_certificate_is_checked(
    roots: str,
    client: Callable[[Address], None],
    wrong: str,
    told: str,
    authorities: dict[str, Authority],
    impostors: dict[str, TlsServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trusted, server = str(authorities["own"].certificate), impostors[wrong]
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    query = {"sslrootcert": "system"} if roots == "system" else {"sslmode": "verify-full", "sslrootcert": trusted}
    with pytest.raises(HoldfastError, match=told) as refused:
        client(Address.parse(server.at("localhost", **query), server.password))
    assert server.password not in str(refused.value)
