"""Addresses of databases, with the password kept separate from the URL."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from holdfast.common.errors import UsageError
from holdfast.common.postgresql_tls import SYSTEM, USUAL_ROOTS, TlsSettings
from holdfast.common.remote_environment import needed
from holdfast.postgresql.connection.value_settings import SETTINGS
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEEP_ALIVE = {"keepalives_idle": "60", "keepalives_interval": "10", "keepalives_count": "6"}
"""Two minutes after the last word of a server that has lost its power, or its network, who waits for it learns so.

What is sent to one is given up by the system, on Linux after about 15 minutes: `tcp_user_timeout` would end a load,
too, that a server which is alive lets wait for a lock. Source: PostgreSQL manual, 'Parameter Key Words'.
"""

_SETTING_VARIABLES = frozenset({"PGCLIENTENCODING", "PGDATESTYLE", "PGGEQO", "PGOPTIONS", "PGPASSWORD", "PGTZ"})
"""What of an environment PostgreSQL's programs must not take over."""


_OF_OTHER_TOOLS = frozenset(
    {
        *(
            "schema",
            "pgbouncer",
            "connection_limit",
            "pool_timeout",
            "socket_timeout",
            "statement_cache_size",
        ),  # Prisma
        *("sslaccept", "sslidentity", "pool_size", "max_overflow", "prepared_statements", "prepareThreshold"),
        *("pool", "reaping_frequency", "checkout_timeout", "currentSchema", "async_fallback"),
        *("prepared_statement_cache_size", "uselibpqcompat", "supa", "workaround"),
    }
)
"""Parameters that Prisma, SQLAlchemy, Rails, JDBC, node-postgres and hosts of databases put into addresses: nothing
that a backup needs."""

_SECRET = {
    "sslpassword": "use a key without one",
    **dict.fromkeys(("oauth_client_secret", "scram_client_key", "scram_server_key"), "log in in another way"),
}
"""Parameters that would be shown with the address, and what to do instead."""

_FILES = {
    "sslrootcert": ("PGSSLROOTCERT", USUAL_ROOTS),
    "sslcert": ("PGSSLCERT", "~/.postgresql/postgresql.crt"),
    "sslkey": ("PGSSLKEY", "~/.postgresql/postgresql.key"),
    "sslcrl": ("PGSSLCRL", "~/.postgresql/root.crl"),
    "passfile": ("PGPASSFILE", "~/.pgpass"),
    "servicefile": ("PGSERVICEFILE", "~/.pg_service.conf"),
}
"""Files that libpq reads: the variable that names each, and where it looks by itself.

Source: PostgreSQL manual, 'Environment Variables' and 'Parameter Key Words'.
"""

_STAYS_HERE = frozenset({"PGPASSWORD", *(variable for variable, _ in _FILES.values())})
"""Variables that travel otherwise, with the address or as files."""

_logger = line_logger(__name__)


@dataclass(frozen=True)
class Address:
    """Address of a database, with its user and a separate password.

    The password is kept out of `url` and out of repr.

    :param url: `postgresql://user@host:port/database`, with libpq parameters in its query part.
    :param event_triggers: whether those of the database act on what sessions do, their log-in included.
    :param search_path: what sessions begin with, and what RESET gives them. None of our statements runs under it.
    """

    url: str
    password: str | None = field(default=None, repr=False)
    event_triggers: bool = True
    search_path: str = SETTINGS["search_path"]

    @classmethod
    def parse(cls, url: str, password: str | None = None) -> Address:
        """Parse a connection URL.

        A password in it is taken out. Parameters that only other tools know are left out, with a warning in the
        log.

        :raises UsageError: not a PostgreSQL URL, one without a database name, or with a parameter that libpq lacks.
        """
        parts = _split(url)
        if not parts.path.strip("/"):
            raise UsageError(f"{_shown(url)} names no database: add /database to it")
        given = unquote(parts.password) if parts.password else None
        login = quote(unquote(parts.username), safe="") + "@" if parts.username else ""
        host = parts.netloc.rpartition("@")[2]
        query = _parameters(parts.query)
        if shown := next((name for name in _SECRET if name in query), None):
            raise UsageError(f"an address may not hold an {shown}, it would be shown: {_SECRET[shown]}")
        given = query.pop("password", given)
        known = _known(query, after_password="password=" in parts.query)
        return cls(_join(login + host, parts.path, known), password or given)

    def __reduce__(self) -> tuple[type[Address], tuple[str, str | None, bool, str]]:
        """Pickle the address; for another machine with the password and the files that libpq would find here."""
        if (remote := needed()) is None:
            return Address, (self.url, self.password, self.event_triggers, self.search_path)
        parts = urlsplit(self.url)
        given = _parameters(parts.query)
        remote.add_own(name for name in os.environ if name.startswith("PG") and name not in _STAYS_HERE)
        for parameter, (variable, usual) in _FILES.items():
            path = given.get(parameter) or os.environ.get(variable) or usual
            if parameter == "sslrootcert" and path == SYSTEM:  # those of the other machine's system
                given[parameter] = path
                continue
            if path != usual or Path(path).expanduser().exists():
                remote.add_file(variable, path)
                given.pop(parameter, None)
        password = self.password or os.environ.get("PGPASSWORD")
        url = _join(parts.netloc, parts.path, given)
        return Address, (url, password, self.event_triggers, self.search_path)

    @property
    def database(self) -> str:
        """Return the name of the database."""
        return unquote(urlsplit(self.url).path.strip("/"))

    @property
    def location(self) -> tuple[str, str] | None:
        """Return the URL's host with its port, and the name of the database; None where it names no host."""
        host = _split(self.url).netloc.rpartition("@")[2]
        if not host:
            return None
        return host if ":" in host.rpartition("]")[2] else f"{host}:5432", self.database

    @property
    def tls(self) -> TlsSettings:
        """Return what the address and its environment ask of TLS."""
        parts = urlsplit(self.url)
        given = _parameters(parts.query)
        return TlsSettings.of(given, given.get("host") or parts.netloc.rpartition("@")[2])

    @property
    def user(self) -> str:
        """Return the user name before the URL's host; "" where there is none."""
        return unquote(urlsplit(self.url).username or "")

    def link(self) -> str:
        """Return a libpq URL without the password, with all of SETTINGS.

        Sessions begin with these settings.

        Sessions notice that the server is gone without a word. The address's own `options`, or else PGOPTIONS, come
        before ours, which win: no statement, not even one that a driver or program sends by itself, runs under others.
        Source: PostgreSQL manual, 'Message Formats', StartupMessage.

        :raises UsageError: it asks for the system's certificates, and these are not found.
        """
        parts = urlsplit(self.url)
        given = _parameters(parts.query)
        options = " ".join(filter(None, (given.get("options", os.environ.get("PGOPTIONS")), *self._made())))
        query = {**_KEEP_ALIVE, **given, **self.tls.parameters(given)}
        query |= {"client_encoding": SETTINGS["client_encoding"], "options": options}
        return _join(parts.netloc, parts.path, query)

    def _made(self) -> Iterator[str]:
        """Yield the settings as `options` take them, with blanks escaped by a backslash."""
        settings = {**SETTINGS, "search_path": self.search_path}
        if not self.event_triggers:
            settings["event_triggers"] = "off"
        for name, value in settings.items():
            if name != "client_encoding":  # libpq has a parameter for it
                yield f"-c {name}=" + value.replace(" ", "\\ ")

    def conninfo(self) -> str:
        """Return `link()` with the password in it: for connecting only, never for a message."""
        link = self.link()
        secret = self.password or os.environ.get("PGPASSWORD")
        if not secret:
            return link
        parts = urlsplit(link)
        user, at, host = parts.netloc.rpartition("@")
        query = _parameters(parts.query)
        if not at:
            return _join(parts.netloc, parts.path, {**query, "password": secret})
        return _join(f"{user}:{quote(secret, safe='')}@{host}", parts.path, query)

    def at_database(self, database: str) -> Address:
        """Return the same server and user with another database."""
        parts = urlsplit(self.url)
        return replace(self, url=_join(parts.netloc, "/" + quote(database, safe=""), _parameters(parts.query)))

    def as_user(self, name: str, password: str | None) -> Address:
        """Return the same database for another user."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        query = {key: value for key, value in _parameters(parts.query).items() if key != "user"}
        return replace(self, url=_join(f"{quote(name, safe='')}@{host}", parts.path, query), password=password)

    def environment(self) -> dict[str, str]:
        """Return an environment that lets PostgreSQL's programs connect without a prompt."""
        secret = self.password or os.environ.get("PGPASSWORD")
        kept = {key: value for key, value in os.environ.items() if key not in _SETTING_VARIABLES}
        return {**kept, **({"PGPASSWORD": secret} if secret else {})}


def _parameters(query: str) -> dict[str, str]:
    """Return the parameters of a URL; libpq takes a plus sign as it stands."""
    return dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))


def _join(netloc: str, path: str, query: Mapping[str, str]) -> str:
    """Return a URL with its slashes, also without a host.

    urlunsplit leaves them out, and libpq needs them.
    """
    given = urlencode(query, quote_via=quote)
    return f"postgresql://{netloc}{path}{f'?{given}' if given else ''}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # A list of hosts, which libpq takes, has several ports.
        ok = parts.scheme in ("postgresql", "postgres") and ("," in parts.netloc or (parts.port or 1) > 0)
    except ValueError:
        ok = False
    if not ok:
        raise UsageError(f"{_shown(url)} is no PostgreSQL address: write postgresql://user@host:port/database")
    # Of an address with '12/secret' for a password, 12 is a port and the rest a database's name, which would be shown.
    if "#" in url or "@" in parts.path + parts.query:
        raise UsageError(
            f"{_shown(url)} is ambiguous: in a user, password, name or parameter write / as %2F, @ as %40, # as %23 "
            "and ? as %3F, or give the password by PGPASSWORD"
        )
    return parts


def _known(query: Mapping[str, str], *, after_password: bool) -> dict[str, str]:
    """Return the parameters that libpq knows.

    :param after_password: a name may be the rest of a password with an ampersand in it, and is not to be shown.
    :raises UsageError: there are others, which are none of those that other tools add.
    """
    if not query:
        return {}
    from psycopg import pq  # with its driver, which an address without parameters does not need

    ours = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    if query.get("ssl") == "true":  # as libpq reads it; Source: PostgreSQL manual, 'Connection URIs'
        ours.add("ssl")
    unknown = [name for name in query if name not in ours and name not in _OF_OTHER_TOOLS]
    if unknown:
        shown = [repr(name) for name in unknown if not after_password and re.fullmatch(r"[a-z][a-z_]*", name, re.I)]
        raise UsageError(
            f"PostgreSQL's client knows no parameter {' or '.join(shown)}: take it out of the address"
            if len(shown) == len(unknown)
            else "what stands behind the address's ? has a part that is no parameter of PostgreSQL's client: in a "
            "value write & as %26, and take out what does not belong there"
        )
    if foreign := [name for name in query if name in _OF_OTHER_TOOLS]:
        _logger.warning("ignored in the address, since only other tools know it: %s", ", ".join(foreign))
    return {name: value for name, value in query.items() if name in ours}


def _shown(url: str) -> str:
    """Return a typed address with its password blanked out.

    The blank reaches as far as the password may.
    """
    return re.sub(r"(://[^:/?#]*):.*@", r"\1:***@", re.sub(r"(password=).*", r"\1***", url, flags=re.S), flags=re.S)


def hide_passwords(text: str) -> str:
    """Return a text with the passwords of URLs in it blanked out."""
    return re.sub(r"(://[^\s:/]*):\S*@", r"\1:***@", re.sub(r"(password=)[^&\s]*", r"\1***", text))
