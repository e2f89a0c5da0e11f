"""TLS of connections to PostgreSQL: settings, their weaknesses, and remedies for failures.

All clients get the same parameters. libpq interprets them; here they are interpreted again for our messages. Source:
PostgreSQL manual, 'SSL Support' of libpq and 'Parameter Key Words'.
"""

from __future__ import annotations

import os
import re
from configparser import ConfigParser, Error
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYSTEM: Final = "system"
"""Value of `sslrootcert` for the certificates that the system trusts."""

USUAL_ROOTS: Final = "~/.postgresql/root.crt"

REMEDY: Final = (
    "add sslmode=verify-full to the address, with sslrootcert=FILE that has the certificates of the server's "
    "authority, or sslrootcert=system for a public one"
)
"""Remedy for a connection over a network whose server is not checked."""

_SYSTEM_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",  # Alpine, macOS
)
"""Files of the certificates that systems trust. Source: Go's crypto/x509, root_linux.go."""

_SYSTEM_VARIABLE: Final = "SSL_CERT_FILE"
"""OpenSSL's variable for another file of these."""

_REQUIRED: Final = ("require", "verify-ca", "verify-full")

_ADVICE: Final = (
    (
        r"certificate verify failed",
        "the server's certificate has expired, or is of no authority that sslrootcert names: have it renewed, or name "
        "there the file with its authority's certificates",
    ),
    (
        r"server certificate for .* does not match host name",
        "write the name that the certificate is for, or have one made for this",
    ),
    (r"root certificate file .* does not exist", "name a file with the certificates of the server's authority there"),
    (r"could not read root certificate file", "name a file with the certificates of the server's authority there"),
    (
        r"no pg_hba\.conf entry for .* no encryption",
        "the server may take connections with TLS alone: ask for it by sslmode=verify-full, or let its pg_hba.conf "
        "know this machine and user",
    ),
    (r"server does not support SSL", "turn its ssl on, or connect with another sslmode"),
    (
        r"requires a valid client certificate|alert (certificate required|handshake failure)",
        "name the file of yours in sslcert, and its key's in sslkey",
    ),
    (
        r"alert (unknown ca|bad certificate|certificate expired|certificate unknown)",
        "the server does not take the client's certificate that sslcert names: have it made, or renewed, by the "
        "authority of the server's ssl_ca_file",
    ),
    (
        r"certificate authentication failed",
        "the client's certificate that sslcert names is for another user: have one made whose name is the role's",
    ),
    (
        r"SSL support is not compiled in",
        "this client was built without TLS: use one that has it, such as that of pip install 'psycopg[binary]' or of "
        "your distribution",
    ),
)
"""Clients' messages on failed TLS, and remedies. Source: fe-secure-openssl.c, fe-connect.c, auth.c; OpenSSL."""


@dataclass(frozen=True)
class TlsSettings:
    """TLS settings of an address, its environment and its service.

    :param mode: `sslmode`.
    :param roots: the certificates of authorities: a path, `system`, or "" for none.
    :param is_named: whether address or environment name these; otherwise it is the default file.
    :param is_remote: whether a server is reached over a network.
    """

    mode: str
    roots: str
    is_named: bool
    is_remote: bool

    @classmethod
    def of(cls, given: Mapping[str, str], hosts: str) -> TlsSettings:
        """Return the settings of an address.

        :param given: its parameters; `hosts`: of its URL, with their ports, separated by commas.
        """
        look = _Look(given)
        named = look.up("sslrootcert", "PGSSLROOTCERT")
        usual = USUAL_ROOTS if Path(USUAL_ROOTS).expanduser().exists() else ""
        default = "verify-full" if named == SYSTEM else "prefer"
        mode = "require" if given.get("ssl") == "true" else look.up("sslmode", "PGSSLMODE")
        return cls(
            mode=mode or default,
            roots=named or usual,
            is_named=bool(named),
            is_remote=any(_is_remote(host) for host in _hosts(look, hosts)),
        )

    @property
    def is_required(self) -> bool:
        """Return whether every client must use TLS, also because certificates are named for a remote server."""
        return self.mode in _REQUIRED or (self.is_named and self.is_remote and self.mode == "prefer")

    @property
    def is_checked(self) -> bool:
        """Return whether the server's identity is checked."""
        return self.mode == "verify-full"

    def weakness(self) -> str:
        """Return a sentence on what an attacker on the network can do, or ""."""
        if not self.is_remote or self.is_checked:
            return ""
        how = f"the connection goes over a network with sslmode={self.mode}"
        if self.mode not in _REQUIRED:
            return (
                f"{how}: an attacker on the way can read and change the data, or answer in the server's place and "
                "receive it"
            )
        if self.mode == "verify-ca" or self.roots:
            return (
                f"{how}: it is encrypted, but the name in the server's certificate is not checked: the owner of "
                "another one of the same authority can answer in the server's place"
            )
        return (
            f"{how}: it is encrypted, but the server's certificate is not checked: an attacker on the way can "
            "answer in its place"
        )

    def warning(self) -> str:
        """Return the weakness with its remedy, or ""."""
        weakness = self.weakness()
        return f"{weakness}: {REMEDY}" if weakness else ""

    def parameters(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters that name the system's certificates by their file.

        Not every libpq knows `sslrootcert=system`, and a wheel's looks in the wrong folder.

        :param given: those of the address itself.
        :raises UsageError: another mode is set, which libpq refuses, too; or the system's file is not found.
        """
        if not (self.is_named and self.roots == SYSTEM):
            return {}
        if self.mode == "disable" and given.get("sslrootcert") != SYSTEM:
            return {"sslrootcert": ""}  # overrides the environment for a connection without TLS
        if not self.is_checked:
            raise UsageError(
                f"sslrootcert=system needs sslmode=verify-full, and it is {self.mode!r}: set verify-full, or name a "
                "file in sslrootcert"
            )
        return {"sslmode": self.mode, "sslrootcert": system_certificates()}

    def describe(self) -> str:
        """Return the settings in words."""
        checked = self.mode in ("verify-ca", "verify-full") or (self.mode == "require" and self.roots)
        return f"sslmode {self.mode}" + (f", certificates of {self.roots}" if checked and self.roots else "")


class _Look:
    """Parameters in libpq's order: of the address, of the service that it names, of the environment."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        name = given.get("service") or os.environ.get("PGSERVICE")
        self._service = _service(name, given.get("servicefile")) if name else {}

    def up(self, parameter: str, variable: str) -> str:
        for value in (self._given.get(parameter), self._service.get(parameter), os.environ.get(variable)):
            if value is not None:
                return value
        return ""


def _service(name: str, file: str | None) -> dict[str, str]:
    """Return the parameters of a service, if a file has it. Source: PostgreSQL manual, 'Connection Service File'."""
    folder = os.environ.get("PGSYSCONFDIR")
    own = file or os.environ.get("PGSERVICEFILE") or "~/.pg_service.conf"
    for path in (own, *([f"{folder}/pg_service.conf"] if folder else [])):
        parser = ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#", strict=False)
        try:
            parser.read(Path(path).expanduser(), encoding="utf-8")
        except (Error, UnicodeDecodeError):
            continue
        if parser.has_section(name):
            return dict(parser[name])
    return {}


def _hosts(look: _Look, of_url: str) -> Iterator[str]:
    """Yield the hosts of the server; none for this machine's default socket."""
    by_number = look.up("hostaddr", "PGHOSTADDR")
    if by_number:
        yield from by_number.split(",")
        return
    for host in of_url.split(",") if of_url else ():
        yield re.sub(r":\d*$", "", host).strip("[]")
    if not of_url:
        yield from look.up("host", "PGHOST").split(",")


def _is_remote(host: str) -> bool:
    """Return whether a host's name is that of another machine."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return False
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True


def system_certificates() -> str:
    """Return the path of the system's trusted certificates. Raises UsageError: there is none at any usual place."""
    named = os.environ.get(_SYSTEM_VARIABLE)
    for path in [named] if named else _SYSTEM_FILES:
        if Path(path).is_file():
            return path
    missing = f"{named} is not there" if named else "the system's certificates are at none of their usual places"
    raise UsageError(
        f"sslrootcert=system: {missing}: name their file in {_SYSTEM_VARIABLE}, or that of the server's authority in "
        "sslrootcert"
    )


def tls_advice(message: str) -> str | None:
    """Return what to do about TLS that failed; None where an error is about something else.

    :param message: the words of a client.
    """
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, message)), None)
