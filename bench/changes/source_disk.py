"""What a server's decoding puts on its disk for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class SourceDisk:
    """Adds up the server's temporary files; call it again and again while something runs.

    :param data: the server's data folder.
    :param most: bytes that were there at once, at most.
    """

    data: Path
    most: int = 0

    def __call__(self, ancestor: int) -> None:
        """Look at them: results that are kept until they are sent, and transactions that did not fit in memory."""
        self.most = max(self.most, sum(self._sizes()))

    def _sizes(self) -> Iterator[int]:
        for pattern in ("base/pgsql_tmp/**/*", "pg_replslot/*/*.spill"):
            for file in self.data.glob(pattern):
                try:
                    yield file.stat().st_size
                except OSError:  # it is gone
                    continue
