"""Sessions that return query results as Arrow, through ADBC's driver.

The driver is used without its DB-API layer, whose import costs each Spark worker a third of a second for
pandas and the dataset API, neither of which is used here.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, AdbcStatusCode
from adbc_driver_manager import Error as DriverError

from holdfast.common.cleanup import clean_up, cleanup
from holdfast.common.postgresql_tls import tls_advice
from holdfast.postgresql.connection.session_errors import BrokenOffError, SessionError, words

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType
    from typing import Self

    from holdfast.postgresql.connection.address import Address

BATCH_BYTES = 8 << 20
"""How much the driver collects before it hands over a batch."""

_COUNTING: Final = threading.Lock()
"""Held while a connection is opened or closed: the driver counts those of a database, and its count is not atomic."""


@lru_cache(maxsize=8)
def _types_of(conninfo: str) -> AdbcDatabase:
    """Return the driver's knowledge of a database, which sessions share.

    It reads all types, and each table is one: with 10,000 tables that takes a second of CPU. It has no connection.
    """
    made: AdbcDatabase = adbc_driver_postgresql.connect(conninfo)
    return made


class ArrowSession:
    """A session in autocommit mode; a context manager that closes it.

    The driver looks for the server's version and its types before the first session of an address in this process:
    under the settings of the address, as all that follows. Types that are made later are read as octets.

    :raises SessionError: it could not be opened.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._reading: WeakSet[Generator[pa.RecordBatch, None, None]] = WeakSet()
        self._is_open = False
        with self._named_errors(), _COUNTING:
            self._connection = AdbcConnection(_types_of(address.conninfo()))
        self._is_open = True

    def execute(self, statement: str) -> None:
        """Run a statement that returns nothing.

        :raises SessionError: the server refused it.
        :raises BrokenOffError: the connection was lost.
        """
        with self._statement() as prepared, self._named_errors():
            prepared.set_sql_query(statement)
            prepared.execute_update()

    def value(self, query: str) -> Any:
        """Return the first column of a query's only row.

        :raises SessionError: the server refused it.
        :raises BrokenOffError: the connection was lost.
        """
        (batch,) = self.batches(query)
        return batch.column(0)[0].as_py()

    def batches(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a query in batches of about BATCH_BYTES.

        :raises SessionError: the server refused it.
        :raises BrokenOffError: it did not come to its end.
        """
        reading = self._batches(query)
        self._reading.add(reading)
        return reading

    def _batches(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        with self._statement() as prepared:
            with self._named_errors():
                prepared.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
                prepared.set_sql_query(query)
                stream, _ = prepared.execute_query()
            reader = pa.RecordBatchReader.from_stream(stream)
            with cleanup(reader.close):
                while (batch := self._next(reader)) is not None:
                    yield batch
                    del batch  # or it would be kept while the next one is read

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        try:
            return reader.read_next_batch()
        except StopIteration:
            return None
        except (OSError, pa.ArrowException) as error:
            raise BrokenOffError(f"reading from {self._address.url} broke off: {self._said(error)}") from error

    @contextmanager
    def _statement(self) -> Iterator[AdbcStatement]:
        prepared = AdbcStatement(self._connection)
        with cleanup(prepared.close):
            yield prepared

    def close(self) -> None:
        """End the session and its unfinished queries.

        The driver closes nothing before them.
        """
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        clean_up(error, *(reading.close for reading in list(self._reading)), self._close_connection)

    def _close_connection(self) -> None:
        with _COUNTING:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise the driver's errors in one sentence without the password.

        The driver's own message may repeat it. That a connection was lost is said by libpq, not by the server.
        """
        try:
            yield
        except DriverError as error:
            said = self._said(error)
            reason = ": ".join(filter(None, (said, tls_advice(said))))
            message = f"reading from {self._address.url} failed: {reason}"
            if self._is_open and error.sqlstate is None and error.status_code == AdbcStatusCode.IO:
                raise BrokenOffError(message) from error
            raise SessionError(message, error.sqlstate) from error

    def _said(self, error: Exception) -> str:
        said = words(error)
        return (said.replace(self._address.password, "***") if self._address.password else said)[:600]
