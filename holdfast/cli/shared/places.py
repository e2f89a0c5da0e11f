"""Archives and databases of the command line, by name or by address, with their settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from holdfast.common.errors import UsageError
from holdfast.common.signing import AS_ENVIRONMENT_SAYS, ArchiveKeys
from holdfast.config.archives_model import Name, SourceConfig
from holdfast.config.archives_yaml import ReadArchives, archive_at, find_config, read_archives
from holdfast.operations.archive_context import ArchiveContext
from holdfast.postgresql.connection.address import Address
from holdfast.storage.url import SUPPORTED

if TYPE_CHECKING:
    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.storage import SealedStore


def _configured(url: str) -> ArchiveConfig | None:
    """Return an archive's settings in archives.yaml, given its name or its URL."""
    path = find_config()
    named = read_archives(path).find(url) if path else None
    return named[1] if named else None


def resolve(
    url: str,
    *,
    keys: ArchiveKeys = AS_ENVIRONMENT_SAYS,
    like: ArchiveKeys = AS_ENVIRONMENT_SAYS,
    coordination: str | None = None,
) -> ArchiveContext:
    """Return the context of an archive, given its URL or its name in archives.yaml.

    :param keys: instead of those in archives.yaml; `like`: those of an archive that is not in it.
    :param coordination: the option with the address of the coordination store.
    """
    configured = _configured(url)
    if configured is None:
        if not url:
            raise UsageError(f"The archive's URL is empty; write {SUPPORTED}.")
        keys = ArchiveKeys(keys.key or like.key, keys.signing or like.signing)
        return ArchiveContext.resolve(archive_at(url), url, keys=keys, coordination=coordination)
    is_replica = url in (configured.replicas or {}).values()
    return ArchiveContext.resolve(configured, url if is_replica else None, keys=keys, coordination=coordination)


def archive_store(url: str, key: str | None = None, like: ArchiveKeys = AS_ENVIRONMENT_SAYS) -> SealedStore:
    """Return the object store of an archive that `resolve` resolves."""
    return resolve(url, keys=ArchiveKeys(key), like=like).open()


def replicas(url: str, *, coordination: str | None = None) -> list[ArchiveContext]:
    """Return the contexts of an archive's replicas in the order of archives.yaml; of a replica's URL, its own."""
    archive = resolve(url, coordination=coordination)
    return [archive] if url == archive.url else archive.replicas


def source(url: str, name: str) -> tuple[str, SourceConfig, Address]:
    """Return a source's name in the archive, its settings, and its address.

    :param url: the archive, as typed.
    :param name: a name in archives.yaml, or an address. One that a source of this archive has means that source, also
        with another user: a DBA sets up what a role of its own backs up.
    """
    if "://" in name:
        address = Address.parse(name)
        ours = resolve(url).settings.sources
        same = [(own, config) for own, config in ours.items() if _is_at(config, address)]
        if len(same) == 1:
            return same[0][0], same[0][1].model_copy(update={"url": address.url}), address
        return _source_name(address.database), SourceConfig(url=address.url), address
    configured = _configured(url)
    if configured is None:
        raise UsageError(
            f"{name!r} is no database address, and archives.yaml has no archive {url}: "
            "write postgresql://user@host:port/database"
        )
    name, config = configured.source(name)
    return name, config, _address(name, config)


def database(name: str, archive: str | None = None) -> tuple[SourceConfig, Address]:
    """Return the settings and the address of a source, given its name in archives.yaml or its address.

    :param archive: needed where several archives have a source of this name.
    """
    if "://" in name and (archive is None or not resolve(archive).settings.sources):
        address = Address.parse(name)
        return SourceConfig(url=address.url), address
    return source(archive or archive_having(name), name)[1:]


def archive_having(name: str) -> str:
    """Return the name of the only archive in archives.yaml that has a source of this name.

    :raises UsageError: none has, or several.
    """
    path = find_config()
    read = read_archives(path) if path else ReadArchives(Path())
    having = sorted(archive for archive, config in read.archives.items() if name in config.sources)
    having += sorted(archive for archive, entry in read.unread.items() if _has_source(entry, name))
    if len(having) != 1:
        remedy = (
            f"several archives have it ({', '.join(having)}): say which with --archive"
            if having
            else "archives.yaml has no source of this name: write postgresql://user@host:port/database"
        )
        raise UsageError(f"{name!r} is no database address, and {remedy}")
    return having[0]


def _has_source(entry: Any, name: str) -> bool:
    named = entry.get("sources") if isinstance(entry, Mapping) else None
    return isinstance(named, Mapping) and name in named


def _is_at(config: SourceConfig, address: Address) -> bool:
    if not config.url or not config.url.startswith("postgres"):
        return False
    return address.location is not None and Address.parse(config.url).location == address.location


def _source_name(database: str) -> str:
    try:
        return TypeAdapter(Name).validate_python(database)
    except ValidationError as error:
        raise UsageError(
            f"the database's name, {database!r}, cannot name a source in an archive (letters, digits, '_', '.', '-'): "
            "give it a name of its own in archives.yaml"
        ) from error


def target(url: str, name: str) -> Address:
    """Return the address to restore to, from an address or a source's name in archives.yaml."""
    return Address.parse(name) if "://" in name else source(url, name)[2]


def _address(name: str, config: SourceConfig) -> Address:
    if config.url:
        return Address.parse(config.url)
    variable = f"AIRFLOW_CONN_{(config.connection or '').upper()}"
    uri = os.environ.get(variable, "")
    if uri.startswith("{"):
        raise UsageError(f"{variable} is JSON, which only Airflow reads: write it as postgresql://user@host:port/db")
    if uri:
        return Address.parse(uri.replace("postgres://", "postgresql://", 1))
    raise UsageError(
        f"source {name} names the Airflow connection {config.connection!r}, which only Airflow knows: add its 'url' "
        f"to archives.yaml, set {variable}, or write the address"
    )
