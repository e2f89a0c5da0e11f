"""Connections of type `holdfast`: an archive that is not in archives.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseHook

from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.operations.archive_context import ArchiveContext
from holdfast_airflow.connections import database_address, find_archive_or_connection, source_address
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.archive import Archive
    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.postgresql.setup.grants import Plan
    from holdfast.postgresql.setup.readiness import Readiness


class HoldfastHook(BaseHook):
    """Hook for an archive: a name in archives.yaml, a URL, or a connection of type `holdfast`."""

    conn_name_attr: ClassVar[str] = "archive"
    default_conn_name: ClassVar[str] = "holdfast_default"
    conn_type: ClassVar[str] = "holdfast"
    hook_name: ClassVar[str] = "Holdfast archive"

    def __init__(self, archive: str = default_conn_name) -> None:
        super().__init__()
        self.archive = archive

    @property
    def config(self) -> ArchiveConfig:
        """Return the settings of the archive."""
        return find_archive_or_connection(self.archive)

    def get_conn(self) -> Archive:
        """Open the archive, to read it. Take a lock to change it."""
        from holdfast.archive import Archive

        return Archive.open(ArchiveContext.resolve(self.config).open())

    def create(self, name: str) -> bool:
        """Create the archive, as `holdfast init` does; return False where it is there.

        :raises UsageError: it is not there and has replicas; or other objects are at its place.
        :raises RefusedError: this machine has seen it there, with a backup.
        """
        from holdfast.archive import Archive
        from holdfast.archive.archive import IDENTITY_KEY
        from holdfast.archive.format.commits import COMMITS
        from holdfast.archive.format.last_seen import place_of, read_seen

        config = self.config
        store = ArchiveContext.resolve(config).open()
        if store.first(IDENTITY_KEY, 1) or store.first(COMMITS, 1):
            Archive.open(store)
            return False
        if config.replicas:
            members = ", ".join(f"'holdfast replica add {word} {url}'" for word, url in config.replicas.items())
            raise UsageError(
                f"{name} has replicas, which this does not create: run 'holdfast init {config.location()} --name "
                f"{name}', then {members}, and clear this task"
            )
        seen = read_seen(place_of(store))
        if seen is not None and seen.sequence:
            raise RefusedError(
                f"this machine has seen {seen} at {store.url}, and it is gone. Is the disk mounted, the bucket the "
                "right one? Where a new archive is meant, 'holdfast init' creates it"
            )
        Archive.create(store, name=name)
        return True

    def check_source(self, source: str | None = None) -> Readiness:
        """Check a source as `holdfast source check` does; nothing is changed.

        With a schedule of changes, the stream is checked, too: the archive must be there then.
        """
        from holdfast.common.units import parse_size
        from holdfast.postgresql.logical.stream import stream_name
        from holdfast.postgresql.setup.readiness import Readiness, check_clients, check_database, check_server
        from holdfast.postgresql.setup.stream_readiness import check_stream
        from holdfast.postgresql.setup.tls_readiness import check_tls

        name, configured = self.config.source(source)
        address = source_address(configured)
        server = check_server(address)
        major = server.facts["major"]
        checks = [
            check_tls(address, major),
            check_clients(major, tls=address.tls),
            server,
            check_database(address, configured.tables, configured.exclude),
        ]
        if self.config.schedule.changes:
            stream = stream_name(self.get_conn().identity.id, name)
            limit = parse_size(configured.max_retained_wal)
            checks.append(check_stream(address, stream, configured.tables, configured.exclude, limit_bytes=limit))
        return Readiness(
            {word: fact for check in checks for word, fact in check.facts.items()},
            tuple(problem for check in checks for problem in check.problems),
            tuple(warning for check in checks for warning in check.warnings),
        )

    def set_up_source(self, source: str | None, admin_conn_id: str) -> list[Plan]:
        """Give a source's role what backups lack, as `holdfast source setup --run` does.

        With a schedule of changes, the archive must be there. A role that is not there is created, without a password.

        :raises UsageError: the connections are of different servers, or no role is known.
        """
        from holdfast.postgresql.setup.grants import run

        plans = list(self._plans(source, admin_conn_id))
        for plan in plans:
            run(database_address(admin_conn_id), plan)
        return plans

    def _plans(self, source: str | None, admin_conn_id: str) -> Iterator[Plan]:
        from holdfast.postgresql.logical.stream import stream_name
        from holdfast.postgresql.setup.grants import plan_reader, plan_setup
        from holdfast.postgresql.setup.stream_rights import WantedStream

        name, configured = self.config.source(source)
        address, admin = source_address(configured), database_address(admin_conn_id)
        if not address.user:
            raise UsageError(f"the connection of {name} names no role: fill in its field 'Role'")
        if (admin.location or ("",))[0] != (address.location or ("",))[0]:
            raise UsageError(f"connection '{admin_conn_id}' is of another server than {name}")
        streams: dict[str, WantedStream] = {}
        if self.config.schedule.changes:
            stream = stream_name(self.get_conn().identity.id, name)
            streams[address.database] = WantedStream(stream, configured.tables, configured.exclude)
        yield plan_setup(admin, [address.database], address.user, streams=streams)
        if streams:
            yield from plan_reader(admin, [address.database], address.user)

    def test_connection(self) -> tuple[bool, str]:
        try:
            state = self.get_conn().state
        except (HoldfastError, StoreError) as error:
            return False, str(error)
        return True, f"format {state.format}, {state.sequence} commits, {len(state.blocks)} blocks"
