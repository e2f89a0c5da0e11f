"""Samples of the servers of sources: whether each answers, and the log that its slot keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.units import parse_size
from holdfast.metrics.catalogue import sample
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import stream_name
from holdfast.postgresql.logical.stream_state import look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.metrics.catalogue import Sample
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.stream_state import StreamState

LIMIT_S = 10.0
"""Limit for the answers of all servers."""

_READ_ONLY = f"set default_transaction_read_only = on; set statement_timeout = {int(LIMIT_S * 1000)}"


@dataclass(frozen=True)
class SourceServer:
    """The server of a source, and the stream that an archive has there.

    :param archive: its label; `source`: the name of the source in it.
    :param archive_id: None if the archive could not be read, so that only the server is checked.
    :param follows: the archive has changes of the source, so there should be a slot.
    """

    archive: str
    source: str
    address: Address
    archive_id: str | None
    follows: bool
    max_retained_wal: str

    def ask(self) -> StreamState | None:
        """Return the state of the stream, if there is one; raises HoldfastError if the server cannot be reached."""
        with connect(self.address) as session:
            session.execute(_READ_ONLY.encode())
            return look(session, stream_name(self.archive_id, self.source)) if self.archive_id else None

    def samples(self, state: StreamState | None) -> Iterator[Sample]:
        """Yield the samples of a server that has answered."""
        labels = (self.archive, self.source)
        yield sample("holdfast_source_server_up", 1, *labels)
        if state is None and self.follows:
            yield sample("holdfast_slot_lost", 1, *labels)
        if state is None:
            return
        yield sample("holdfast_slot_retained_bytes", state.retained_bytes, *labels)
        yield sample("holdfast_slot_limit_bytes", parse_size(self.max_retained_wal), *labels)
        if state.safe_wal_size is not None:
            yield sample("holdfast_slot_safe_bytes", state.safe_wal_size, *labels)
        yield sample("holdfast_slot_lost", bool(state.lost), *labels)
