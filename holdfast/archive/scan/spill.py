"""Values set aside in files, to be put into later rows.

There may be any number of them, of any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class Shelf:
    """The values of some fields; written once, then read in any order.

    :param path: a new file; whoever gave it removes it.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)
        self._ends: list[int] = []
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> int:
        """Set rows aside, and return the place of the first one.

        The others follow it.
        """
        first = self.rows
        self._writer.write_batch(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self._ends.append(self.rows)
        return first

    def finish(self) -> None:
        """Close the file; from now on it is read."""
        self._writer.close()
        self._file.close()
        self._reader = pa.ipc.open_file(pa.memory_map(str(self._path)))

    def take(self, places: NDArray[np.int64]) -> pa.RecordBatch:
        """Return the rows at these places, in their order."""
        if self._reader is None:
            raise RuntimeError("values can be taken once all are there")
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        ends = np.array(self._ends, dtype=np.int64)
        batches = np.searchsorted(ends, ordered, side="right")
        parts = []
        for number in np.unique(batches):
            inside = ordered[batches == number] - (ends[number - 1] if number else 0)
            parts.append(self._reader.get_batch(int(number)).take(pa.array(inside)))
        found = pa.Table.from_batches(parts, self._schema).combine_chunks()
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        (batch,) = found.take(pa.array(back)).combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], self._schema)
        ]
        return batch
