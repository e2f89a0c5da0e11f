"""Connections of type `holdfast`: an archive that is not in archives.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseHook

from holdfast.common.errors import HoldfastError
from holdfast_airflow.connections import find_archive_or_connection
from locking.store import StoreError

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.config.archives_model import ArchiveConfig


class HoldfastHook(BaseHook):
    """An archive: its settings, and its state as it is now.

    :param archive: a name in archives.yaml, a URL, or the id of a connection of type `holdfast`.
    """

    conn_name_attr: ClassVar[str] = "archive"
    default_conn_name: ClassVar[str] = "holdfast_default"
    conn_type: ClassVar[str] = "holdfast"
    hook_name: ClassVar[str] = "Holdfast archive"

    def __init__(self, archive: str = default_conn_name) -> None:
        super().__init__()
        self.archive = archive

    @property
    def config(self) -> ArchiveConfig:
        """Return the settings of the archive.

        :raises UsageError: nobody knows it.
        """
        return find_archive_or_connection(self.archive)

    def get_conn(self) -> Archive:
        """Open the archive, to read it; take a lock to change it.

        :raises HoldfastError: there is none, or it is damaged.
        :raises StoreError: the store cannot be reached.
        """
        from holdfast.archive import Archive
        from holdfast.storage import open_store

        config = self.config
        return Archive.open(open_store(config.place(), config.key, config.signs))

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the archive can be opened, with a summary of it or the error."""
        try:
            state = self.get_conn().state
        except (HoldfastError, StoreError) as error:
            return False, str(error)
        return True, f"format {state.format}, {state.sequence} commits, {len(state.blocks)} blocks"
