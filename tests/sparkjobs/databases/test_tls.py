"""Sources and targets behind TLS: backups, restores and drills with the server's certificate checked, or refused."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.common.remote_environment import collected
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import embedded_programs
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here
from tests.support.servers.certificates import Authority
from tests.support.servers.tls_server import CERTIFIED, TlsServer

pytestmark = pytest.mark.service

OVER_A_NETWORK = "0.0.0.0"  # noqa: S104 - it leads to this machine, too, and its name does not tell so


THERE = """
import pickle, sys
remote, packed = pickle.load(sys.stdin.buffer)
remote.put_in_force()
address = pickle.loads(packed)
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.session import connect
query = "select version from pg_catalog.pg_stat_ssl where pid = pg_catalog.pg_backend_pid()"
with connect(address) as session, ArrowSession(address) as arrow:
    print(session.info.user, *session.execute(query).fetchone(), arrow.value(query))
"""


@dataclass(frozen=True)
class Secured:
    """A server for `localhost`, its authority, and another one."""

    server: TlsServer
    own: Authority
    other: Authority

    def at(self, host: str, database: str, **parameters: str) -> Address:
        return Address.parse(self.server.at(host, database, **parameters), self.server.password)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("certificates")
    own, other = Authority.made(folder, "own"), Authority.made(folder, "other")
    with TlsServer(own.server(folder, host="localhost"), own) as server:
        made = Secured(server, own, other)
        trusted = {"sslmode": "verify-full", "sslrootcert": str(own.certificate)}
        with connect(made.at("localhost", "postgres", **trusted)) as session:
            session.execute("create database shop")
            session.execute("create database empty")
            session.execute(f"create role {CERTIFIED} login superuser password 'of no use alone'".encode())
        with connect(made.at("localhost", "shop", **trusted)) as session:
            session.execute("create table public.orders (id int primary key, word text)")
            session.execute("insert into public.orders select i, 'order ' || i from generate_series(1, 100) i")
        yield made


@pytest.fixture(scope="module")
def archive(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive with a backup."""
    url = str(tmp_path_factory.mktemp("archive") / "archive")
    source = secured.at("localhost", "shop", sslmode="require")
    assert run_here("init", url).code == 0
    done = run_here("backup", url, "--source", source.url, address=source)
    assert done.code == 0, done.err
    return url


@pytest.mark.representatives("system")
@pytest.mark.parametrize("roots", ["file", "system", "environment"])
def test_a_database_behind_tls_is_backed_up_restored_and_drilled(roots: str, secured: Secured, tmp_path: Path) -> None:
    trusted = str(secured.own.certificate)
    parameters = {
        "file": {"sslmode": "verify-full", "sslrootcert": trusted},
        "system": {"sslrootcert": "system"},
        "environment": {},
    }[roots]
    # Of a drill, too, whose own server has no TLS.
    more = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": "system", "SSL_CERT_FILE": trusted}
    source, target = (secured.at("localhost", name, **parameters) for name in ("shop", f"restored_{roots}"))
    archive = str(tmp_path / "archive")
    with connect(secured.at("localhost", "postgres", sslmode="verify-full", sslrootcert=trusted)) as session:
        session.execute(f"create database {target.database}".encode())

    def run(*arguments: str) -> Finished:
        done = run_here(*arguments, "--json", address=source, more=more)
        assert done.code == 0, done.err
        return done

    run("init", archive)
    run("backup", archive, "--source", source.url, "--kind", "changes")
    with connect(secured.at("localhost", "shop", sslmode="verify-full", sslrootcert=trusted)) as session:
        session.execute("update public.orders set word = 'changed' where id <= 10")
    run("backup", archive, "--source", source.url, "--kind", "changes")
    assert run("restore", archive, "--to", target.url).value["equal"]
    run("drill", archive)


@pytest.mark.representatives("by nobody known")
@pytest.mark.parametrize(
    ("host", "trusts", "told"),
    [
        ("localhost", "other", "is of no authority that sslrootcert names"),
        ("127.0.0.1", "own", "write the name that the certificate is for"),
        ("localhost", "none", "name a file with the certificates of the server's authority there"),
    ],
    ids=["by nobody known", "of another name", "no file"],
)
def test_no_job_begins_where_the_servers_certificate_is_not_good(
    host: str, trusts: str, told: str, secured: Secured, archive: str, tmp_path: Path
) -> None:
    roots = {"own": secured.own.certificate, "other": secured.other.certificate, "none": tmp_path / "none.pem"}[trusts]
    there = secured.at(host, "empty", sslmode="verify-full", sslrootcert=str(roots))
    for arguments in (
        ("backup", archive, "--source", there.url),
        ("restore", archive, "--to", there.url),
        ("source", "check", there.url),
        ("source", "setup", there.url),
    ):
        done = run_here(*arguments, address=there)
        assert (done.code, told in done.err) == (1, True), done.err
        assert secured.server.password not in done.err


@pytest.mark.exhaustive
def test_a_client_shows_its_certificate_where_the_server_asks_for_one(secured: Secured, tmp_path: Path) -> None:
    trusted = {"sslmode": "verify-full", "sslrootcert": str(secured.own.certificate)}
    without = Address.parse(
        secured.server.at("localhost", "shop", **trusted).replace("postgres@", f"{CERTIFIED}@"), "of no use alone"
    )
    archive = str(tmp_path / "archive")
    assert run_here("init", archive).code == 0
    refused = run_here("backup", archive, "--source", without.url, address=without)
    assert (refused.code, "name the file of yours in sslcert, and its key's in sslkey" in refused.err) == (1, True)
    certificate, key = secured.own.client(tmp_path, CERTIFIED)
    shown = Address.parse(f"{without.url}&sslcert={certificate}&sslkey={key}", "of no use alone")
    done = run_here("backup", archive, "--source", shown.url, address=shown)
    assert done.code == 0, done.err


def test_a_worker_that_has_none_of_the_files_connects_with_the_drivers_certificates(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = secured.own.client(tmp_path, CERTIFIED)
    roots = Path(shutil.copy(secured.own.certificate, tmp_path))
    given = secured.server.at(
        "localhost", "shop", sslmode="verify-full", sslrootcert=str(roots), sslcert=str(certificate)
    )
    monkeypatch.setenv("PGSSLKEY", str(key))
    with collected() as remote:
        packed = pickle.dumps(Address.parse(given.replace("postgres@", f"{CERTIFIED}@"), "of no use alone"))
    for path in (certificate, key, roots):
        path.unlink()
    done = subprocess.run(
        [sys.executable, "-c", THERE],
        input=pickle.dumps((remote, packed)),
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.stdout.decode().split() == [CERTIFIED, "TLSv1.3", "TLSv1.3"], done.stderr.decode()


def test_a_pg_dump_without_tls_is_refused_before_any_lock_where_tls_is_asked_for(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = embedded_programs()
    assert embedded is not None
    monkeypatch.setattr(programs, "candidates", lambda name: iter([embedded / name]))
    there = secured.at("localhost", "shop", sslmode="verify-full", sslrootcert=str(secured.own.certificate))
    archive = tmp_path / "archive"
    assert run_here("init", str(archive)).code == 0
    before = sorted(archive.rglob("*"))
    done = run_here("backup", str(archive), "--source", there.url, address=there)
    assert done.code == 5
    assert "was built without TLS, and sslmode verify-full" in done.err
    assert "install postgresql-client-18 18.6 or newer from your distribution" in done.err
    assert sorted(archive.rglob("*")) == before
    checked = run_here("source", "check", there.url, "--json", address=there)
    assert checked.code == 5
    assert checked.value["facts"]["pg_dump"] is None
    assert any("built without TLS" in each["what"] for each in checked.value["problems"])


def test_a_connection_over_a_network_that_is_not_checked_is_warned_of_by_all(secured: Secured, archive: str) -> None:
    source, target = (secured.at(OVER_A_NETWORK, name, sslmode="require") for name in ("shop", "empty"))
    told = "goes over a network with sslmode=require: it is encrypted, but the server's certificate is not checked"
    checked = run_here("source", "check", source.url, address=source)
    assert f"warn the connection {told}" in checked.out
    assert "add sslmode=verify-full to the address" in checked.out
    setup = run_here("source", "setup", source.url, "--role", "backup", address=source)
    assert (setup.code, told in setup.err) == (0, True)
    done = run_here("backup", archive, "--source", source.url, address=source)
    assert (done.code, done.err.count(told)) == (0, 1), done.err
    done = run_here("restore", archive, "--to", target.url, "--dry-run", address=target)
    assert (done.code, done.err.count(told)) == (0, 1), done.err


def test_the_doctor_tells_what_each_client_uses(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = secured.at("localhost", "shop", sslmode="verify-full", sslrootcert=str(secured.own.certificate))
    weak = secured.at(OVER_A_NETWORK, "shop", sslmode="require")
    (tmp_path / "archives.yaml").write_text(
        f"archives: {{shop: {{url: {tmp_path}/archive, sources: {{"
        f"good: {{url: '{good.url}'}}, "
        f"weak: {{url: '{weak.url}'}}}}}}}}"
    )
    done = run_here("doctor", address=good)
    trusted = f"sslmode verify-full, certificates of {secured.own.certificate}"
    assert f"ok   TLS of good: {trusted}: psycopg TLSv1.3, Arrow driver TLSv1.3, pg_dump with TLS\n" in done.out
    assert "warn TLS of weak: sslmode require: psycopg TLSv1.3, Arrow driver TLSv1.3, pg_dump with TLS" in done.out
