"""Events of assets, as tasks fill them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from holdfast.common.errors import HoldfastError, sentence
from holdfast.replication.log.settings import CoordinationAddress
from holdfast_airflow.assets import SCHEME, is_record
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow.sdk import Context

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.storage import ObjectStore

log = line_logger(__name__)


def fill_events(
    outlets: Iterable[Any],
    context: Context,
    *,
    summary: Mapping[str, Any],
    archive: ArchiveConfig,
    store: ObjectStore,
) -> None:
    """Put a task's summary into the events of its outlets.

    The event of a record asset gets the archive's record.

    A record that cannot be made is logged, and fails no task: the work is done.

    :param store: of the archive or the replica that was worked on.
    """
    for asset in outlets:
        if not isinstance(asset, Asset) or not asset.uri.startswith(f"{SCHEME}:"):
            continue
        if is_record(asset.uri):
            try:
                context["outlet_events"][asset].extra = _record(archive, store)
            except (HoldfastError, StoreError) as error:
                log.warning("the archive's record is not updated: %s", sentence(error))
        else:
            context["outlet_events"][asset].extra = dict(summary)


def _record(archive: ArchiveConfig, store: ObjectStore) -> dict[str, Any]:
    from holdfast.archive import Archive
    from holdfast.status import record_of

    record = record_of(Archive.open(store), archive.sources)
    if archive.replicas:
        record["replication"] = _replication(archive, record["archive"])
    return record


def _replication(archive: ArchiveConfig, identity: str) -> dict[str, Any] | None:
    from holdfast.replication.log.status import status
    from holdfast.replication.log.store import opened

    address = CoordinationAddress.resolve(configured=archive.store, replicas=archive.replicas)
    if address.url is None:
        return None
    with opened(address) as coordination:
        statuses = coordination.run(lambda connection: status(connection, identity))
    return statuses[0].describe() if statuses else None
