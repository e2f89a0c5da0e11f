"""Airflow's connections as settings of jobs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret
from cryptography.fernet import InvalidToken

from holdfast.common.errors import UsageError
from holdfast.config.archives_yaml import archive_at, find_archive
from holdfast.postgresql.connection.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Connection

    from holdfast.config.archives_model import ArchiveConfig, SourceConfig

POSTGRES_TYPE = "holdfast_postgres"
ARCHIVE_TYPE = "holdfast"
_POSTGRES_TYPES = frozenset({POSTGRES_TYPE, "postgres", "postgresql", "generic"})

# Parameters of libpq (https://www.postgresql.org/docs/18/libpq-connect.html) that people keep in the
# extras of a connection; those that are secrets (sslpassword, passfile) are left out on purpose.
_LIBPQ = (
    "application_name channel_binding client_encoding connect_timeout gssencmode host hostaddr keepalives "
    "keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts options require_auth "
    "sslcert sslcompression sslcrl sslkey sslmode sslnegotiation sslrootcert ssl_min_protocol_version "
    "target_session_attrs tcp_user_timeout"
)


def get_connection(conn_id: str) -> Connection:
    """Return an Airflow connection.

    :raises UsageError: there is none of this id, or it cannot be decrypted.
    """
    try:
        return _decrypted_connection(conn_id)
    except AirflowNotFoundException:
        raise UsageError(
            f"there is no Airflow connection '{conn_id}': make it under Admin > Connections, "
            f"or set AIRFLOW_CONN_{conn_id.upper()}"
        ) from None


def _decrypted_connection(conn_id: str) -> Connection:
    connection = BaseHook.get_connection(conn_id)
    try:
        _ = connection.password, connection.extra  # decrypted when they are read
    except InvalidToken:
        raise UsageError(
            f"Airflow connection '{conn_id}' cannot be decrypted: AIRFLOW__CORE__FERNET_KEY is not the key that it was "
            "saved with; set that key, or save the connection again"
        ) from None
    return connection


def database_address(conn_id: str) -> Address:
    """Return the address of a connection's database. Its password is masked in logs from now on.

    :raises UsageError: no such connection, or not one to PostgreSQL with a database in it.
    """
    connection = get_connection(conn_id)
    if connection.conn_type not in _POSTGRES_TYPES:
        raise UsageError(
            f"connection '{conn_id}' is of type '{connection.conn_type}': for PostgreSQL it must be "
            f"'{POSTGRES_TYPE}' or 'postgres'"
        )
    if not connection.schema:
        raise UsageError(f"connection '{conn_id}' names no database: fill in its field 'Database' (schema)")
    if connection.password:
        mask_secret(connection.password)
        mask_secret(quote(connection.password, safe=""))
    return Address(_url(connection), connection.password or None)


def source_address(source: SourceConfig | None, conn_id: str | None = None) -> Address:
    """Return the address of a source: that of its connection, else its URL.

    :param conn_id: a connection in place of the source's own one.
    """
    conn_id = conn_id or (source.connection if source else None)
    return database_address(conn_id) if conn_id else Address.parse((source and source.url) or "")


def _url(connection: Connection) -> str:
    """Write a connection as a URI of libpq, without the password."""
    host, query = connection.host or "", _libpq_extras(connection.extra_dejson)
    if host.startswith("/"):  # the folder of a Unix socket has no place in a URL but the query
        host, query = "", {"host": host, **query}
    if ":" in host:  # an IPv6 address
        host = f"[{host}]"
    user = f"{quote(connection.login, safe='')}@" if connection.login else ""
    port = f":{connection.port}" if connection.port else ""
    if port and not host and "host" in query:
        port, query = "", {**query, "port": str(connection.port)}
    path = quote(connection.schema or "", safe="")
    return f"postgresql://{user}{host}{port}/{path}" + (f"?{urlencode(query)}" if query else "")


def _libpq_extras(extras: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in extras.items() if name in _LIBPQ.split() and value not in (None, "")}


def find_archive_or_connection(archive: str) -> ArchiveConfig:
    """Return the settings of an archive by its name, URL, or connection of type `holdfast`.

    :raises UsageError: it is not configured, or there is a mistake in its settings.
    """
    try:
        return find_archive(archive)
    except UsageError as error:
        try:
            connection = _decrypted_connection(archive)
        except AirflowNotFoundException:
            raise error from None
    if connection.conn_type != ARCHIVE_TYPE:
        raise UsageError(
            f"connection '{archive}' is of type '{connection.conn_type}': for an archive it must be '{ARCHIVE_TYPE}'"
        )
    if not connection.host:
        raise UsageError(f"connection '{archive}' names no archive: fill in its field 'URL'")
    key = connection.extra_dejson.get("key")
    return archive_at(connection.host, key=key or None)


def check_spark_connection(conn_id: str, *, deploy_mode: str | None) -> str:
    """Return the master of a Spark connection, where a job's password stays unseen.

    The hook takes a connection that does not exist for YARN, without a word. In cluster mode it hands
    environment variables on as visible `--conf` (YARN, Kubernetes) or not at all (standalone).

    :param deploy_mode: what the task itself asks for; it goes before what the connection says.
    """
    connection = get_connection(conn_id)
    mode = deploy_mode or connection.extra_dejson.get("deploy-mode") or "client"
    if mode != "client":
        raise UsageError(
            f"Spark connection '{conn_id}' asks for deploy mode '{mode}', where the database password would "
            "be visible in Spark's configuration: set its extra 'deploy-mode' to 'client'"
        )
    master: str = connection.host or "local[*]"
    if master.startswith("k8s://") and not _has_kubernetes():
        raise UsageError(
            f"Spark connection '{conn_id}' means Kubernetes, and Airflow's Spark provider needs another one for that: "
            "install Holdfast's wheel with its extra kubernetes"
        )
    return master


def is_cluster_connection(conn_id: str) -> bool:
    """Return whether a Spark connection means workers on other machines; a job without Spark needs no connection."""
    try:
        connection = get_connection(conn_id)
    except UsageError:
        return False
    return not (connection.host or "local").startswith("local")


def _has_kubernetes() -> bool:
    try:
        return find_spec("airflow.providers.cncf.kubernetes") is not None
    except ModuleNotFoundError:  # the package above it is not there
        return False
