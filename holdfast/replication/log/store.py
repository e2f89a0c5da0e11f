"""Coordination store of replicated archives: SQLite beside one machine's archives, else PostgreSQL.

Every transaction is serializable, and is begun again where the database gave it up for another one: so its effects
must be only in the database. A lost answer is unknown: the caller then looks by the id that it had given.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from holdfast.common.cleanup import clean_up
from holdfast.common.errors import OutcomeUnknownError, UsageError
from holdfast.common.postgresql_tls import TlsSettings, tls_advice
from holdfast.replication.log.errors import StoreAwayError
from holdfast.replication.log.settings import COORDINATION_VARIABLE, CoordinationAddress
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from sqlalchemy import URL, Connection, Engine

    from holdfast.replication.log.settings import AnyAddress

T = TypeVar("T")

logger = line_logger(__name__)

logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)  # else each opening says two lines

ENVIRONMENT = COORDINATION_VARIABLE

PASSWORD = "HOLDFAST_STORE_PASSWORD"  # noqa: S105 - the name of a variable
"""The environment variable with its password, where ~/.pgpass has none."""

VERSION_TABLE = "holdfast_version"
"""Its own name: the store may share a database with others who use Alembic."""

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgresql+psycopg": "postgresql+psycopg"}
PATIENCE_S = 60.0
"""So long a transaction is tried again that others were in the way of: many at once take turns, in no order."""
_BUSY_S = 30
"""So long SQLite waits for another process's transaction."""

_KEPT_S = 60
"""So long after its beginning a session is used again."""

_LINK = {
    "connect_timeout": "15",
    "application_name": "holdfast",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "tcp_user_timeout": "120000",
}
"""libpq's parameters, where the address has no others: who waits for a server that has lost its power, or its network,
is told so after two minutes. Source: PostgreSQL manual, 'Parameter Key Words'.
"""

_SETTINGS = {
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""Of the server's side of a session, where the address has no others: a client that has gone without a word, or is
suspended, keeps its locks no longer than that. No transaction waits for anything outside the database.
"""

_GIVEN_UP = frozenset({"40001", "40P01"})
"""SQL states of a transaction that another one was in the way of. Source: PostgreSQL manual, appendix A."""

_REFUSED = frozenset({"25006", "42501"})
"""SQL states of a server that only reads, such as a standby, and of a role without rights. Source: as above."""

_CLOCKS = {
    "sqlite": "select (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "select extract(epoch from clock_timestamp())::float8",
}


class CoordinationStore:
    """Coordination store, ready for use; `named` has the URLs by name of configured replicas."""

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine = engine
        self.url = url
        self.named: Mapping[str, str] = {}

    @classmethod
    def open(cls, address: str) -> CoordinationStore:
        """Open a store, empty or of an older release, and bring its tables to this release.

        :param address: `sqlite:///file` or `postgresql://user@host/database`, without a password.
        :raises UsageError, StoreAwayError: it is no such address, or of a newer release; or cannot be reached.
        """
        url = _parse(address)
        store = cls(_engine(url), url.render_as_string(hide_password=True))
        try:
            store._upgrade()
        except DBAPIError as error:
            store.close()
            raise store._unreachable(error) from error
        except BaseException as error:
            clean_up(error, store.close)
            raise
        return store

    def close(self) -> None:
        """Close the connections to the store; it can be used again."""
        self._engine.dispose()

    def __enter__(self) -> CoordinationStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        clean_up(error, self.close)

    def run(self, work: Callable[[Connection], T], *, serializable: bool = True) -> T:
        """Run a transaction, and return its result; `work` may be called several times.

        :param serializable: False only for work on rows that no other process touches any more.
        :raises StoreAwayError: the store cannot be reached, or others were in the way for long; nothing was changed.
        :raises OutcomeUnknownError: the answer to the end of the transaction was lost.
        """
        tries = Retrying(
            retry=retry_if_exception(_was_given_up),
            wait=wait_random_exponential(multiplier=0.02, max=1),
            stop=stop_after_delay(PATIENCE_S),
            reraise=True,
        )
        try:
            result: T = tries(self._once, work, serializable=serializable)
        except DBAPIError as error:
            if not _was_given_up(error):
                raise
            raise StoreAwayError(
                f"others changed the same in the coordination store {self.url} for {PATIENCE_S:.0f} s on end: nothing "
                "was changed; try again"
            ) from error
        return result

    def _once(self, work: Callable[[Connection], T], *, serializable: bool) -> T:
        try:
            with self._engine.connect() as connection:
                if not serializable and connection.dialect.name == "postgresql":
                    connection.execution_options(isolation_level="READ COMMITTED")
                with connection.begin() as transaction:
                    result = work(connection)
                    try:
                        transaction.commit()
                    except DBAPIError as error:
                        if error.connection_invalidated:
                            raise OutcomeUnknownError(
                                f"the coordination store {self.url} did not say whether it has taken what was to be "
                                "changed: look with 'holdfast replica status' before trying again"
                            ) from error
                        raise
                return result
        except DBAPIError as error:
            if _was_given_up(error):
                raise
            refused = getattr(error.orig, "sqlstate", None) in _REFUSED
            if isinstance(error, OperationalError) or error.connection_invalidated or refused:
                raise self._unreachable(error) from error
            raise

    def _unreachable(self, error: DBAPIError) -> StoreAwayError:
        said = " ".join(str(error.orig).split())
        said = ": ".join(filter(None, (said.removesuffix("."), tls_advice(said))))
        return StoreAwayError(
            f"the coordination store {self.url} cannot be used: {said}. Backups and sequential reads need it; "
            "--consistency eventual reads one replica without it"
        )

    def _upgrade(self) -> None:
        from alembic import command  # a tenth of a second that most commands need not take
        from alembic.config import Config
        from alembic.runtime.migration import MigrationContext
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(resources.files("holdfast.replication") / "migrations"))
        scripts = ScriptDirectory.from_config(config)

        def upgrade(connection: Connection) -> None:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            is_at = context.get_current_revision()
            if is_at == scripts.get_current_head():
                return
            if is_at is not None and is_at not in {script.revision for script in scripts.walk_revisions()}:
                raise UsageError(f"the coordination store {self.url} is of a newer release: upgrade holdfast")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

        self.run(upgrade)


def clock(connection: Connection) -> float:
    """Return the store's time, in seconds since 1970."""
    return float(connection.execute(sa.text(_CLOCKS[connection.dialect.name])).scalar_one())


def _parse(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in _DRIVERS:
        raise UsageError(
            "a coordination store is given as sqlite:////path/to/file.db or postgresql://user@host:port/database"
        )
    if url.password is not None or any("password" in name.lower() for name in url.query):
        raise UsageError(f"leave the password out of the store's address: {PASSWORD} or ~/.pgpass may have it")
    return url.set(drivername=_DRIVERS[url.drivername])


def _engine(url: URL) -> Engine:
    if url.drivername == "sqlite":
        engine = sa.create_engine(url, connect_args={"timeout": _BUSY_S}, poolclass=sa.NullPool)
        # The driver would begin a transaction at the first change only, after what was read for it.
        sa.event.listen(engine, "connect", _leave_transactions_alone)
        sa.event.listen(engine, "begin", _begin_immediately)
        return engine
    password = os.environ.get(PASSWORD)
    _warn_of_network(url.render_as_string(hide_password=True), _tls(url).warning())
    return sa.create_engine(
        _with_defaults(url.set(password=password) if password else url),
        isolation_level="SERIALIZABLE",
        # Transactions come several at a time, and to begin a session takes longer than one does. Between such times it
        # may be lost: it is looked at first, and after a while no longer relied on.
        pool_size=1,
        max_overflow=-1,
        pool_pre_ping=True,
        pool_recycle=_KEPT_S,
    )


def _with_defaults(url: URL) -> URL:
    """Return a URL with our parameters and server settings where it has none of its own."""
    certificates = _tls(url).parameters(_single(url))
    ours = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    given = url.query.get("options", "")
    options = f"{ours} {given if isinstance(given, str) else ' '.join(given)}"  # the last one of a name counts
    return url.set(query={**_LINK, **url.query, **certificates, "options": options})


def _tls(url: URL) -> TlsSettings:
    host = url.host or ""
    given = _single(url)
    return TlsSettings.of(given, given.get("host") or (f"[{host}]" if ":" in host else host))


def _single(url: URL) -> dict[str, str]:
    """Return a URL's parameters, several of one name joined as libpq takes a list."""
    return {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}


@cache
def _warn_of_network(where: str, warning: str) -> None:
    if warning:
        logger.warning("The coordination store %s: %s", where, warning)


def _leave_transactions_alone(connection: Any, record: Any) -> None:
    connection.isolation_level = None


def _begin_immediately(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _was_given_up(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _GIVEN_UP


def is_there(address: str) -> bool:
    """Return whether a store may exist at an address: only a file of SQLite is looked for."""
    url = _parse(address)
    return url.drivername != "sqlite" or Path(url.database or "").exists()


@contextmanager
def opened(address: AnyAddress, *, create: bool = False) -> Iterator[CoordinationStore]:
    """Open the store at an address, or where the environment says.

    :param create: make a file of SQLite that is not there.
    :raises UsageError: neither says where it is, or there is no such file.
    """
    given = address if isinstance(address, CoordinationAddress) else CoordinationAddress.resolve(address)
    url = given.url
    if not url:
        raise UsageError(f"say where the coordination store is: --store, {ENVIRONMENT}, or 'store' in archives.yaml")
    if not create and not is_there(url):
        raise UsageError(
            f"there is no coordination store at {_parse(url).database}: check the address; 'holdfast replica add' "
            "makes a new one, and 'holdfast replica rebuild-store' one for replicas whose store is gone"
        )
    with CoordinationStore.open(url) as store:
        store.named = given.replicas
        yield store
