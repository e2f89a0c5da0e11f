"""A session that returns what a query finds as Arrow, through ADBC's driver.

The driver is used without its DB-API layer, whose import costs each Spark worker a third of a second for
pandas and the dataset API, neither of which is used here.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcStatement
from adbc_driver_manager import Error as DriverError

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from holdfast.sources.postgresql.address import Address

BATCH_BYTES = 8 << 20
"""How much the driver collects before it hands over a batch."""

_SETTINGS = {"quote_all_identifiers": "off"}
"""The driver looks types up by the names of their functions, as soon as it is connected."""


class SessionError(HoldfastError):
    """The server refused a statement, or could not be reached.

    :param sqlstate: the server's code; None where it gave none.
    """

    def __init__(self, message: str, sqlstate: str | None) -> None:
        super().__init__(message, sqlstate)
        self.message = message
        self.sqlstate = sqlstate

    def __str__(self) -> str:
        return self.message


class ArrowSession:
    """A session in autocommit mode; a context manager that closes it.

    :raises SessionError: it could not be opened.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        with self._named_errors(), ExitStack() as opened:
            self._database = opened.enter_context(adbc_driver_postgresql.connect(address.conninfo(_SETTINGS)))
            self._connection = opened.enter_context(AdbcConnection(self._database))
            self._open = opened.pop_all()

    def execute(self, statement: str) -> None:
        """Run a statement that returns nothing.

        :raises SessionError: the server refused it.
        """
        with AdbcStatement(self._connection) as prepared, self._named_errors():
            prepared.set_sql_query(statement)
            prepared.execute_update()

    def value(self, query: str) -> Any:
        """Return the first column of a query's only row.

        :raises SessionError: the server refused it.
        """
        (batch,) = self.batches(query)
        return batch.column(0)[0].as_py()

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches of about BATCH_BYTES.

        :raises SessionError: the server refused it.
        :raises OSError, pa.ArrowException: it broke off in the middle, for whatever reason.
        """
        with AdbcStatement(self._connection) as prepared:
            with self._named_errors():
                prepared.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
                prepared.set_sql_query(query)
                stream, _ = prepared.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as reader:
                yield from reader

    def close(self) -> None:
        """End the session."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Make one sentence of what the driver says; its message may not repeat the connection's password."""
        try:
            yield
        except DriverError as error:
            said = " ".join(str(error).split())
            if self._address.password:
                said = said.replace(self._address.password, "***")
            raise SessionError(f"reading from {self._address.url} failed: {said[:600]}", error.sqlstate) from error
