"""Tables of a real server, and their rows' way through the files and back."""

from __future__ import annotations

import io
import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.postgresql.catalog.columns import Column, read_columns
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.copy_out import copy_out
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.connection.value_settings import VALUE_SETTINGS
from holdfast.postgresql.values.content_hash import ContentHash, digest, hash_select
from holdfast.postgresql.values.copy_decoder import CopyDecoder, from_binary
from holdfast.postgresql.values.decode import Decoder
from holdfast.postgresql.values.encode import copy_in, copy_statement, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.connection.server import PostgresServer

_numbers = itertools.count(1)


@contextmanager
def open_tables(postgres: PostgresServer, name: str, options: str = "") -> Iterator[Tables]:
    """Create a database and open it with the settings that values rely on."""
    with psycopg.connect(postgres.conninfo(), autocommit=True) as session:
        session.execute(f"create database {ident(name)} {options}".encode())
    settings = " ".join(f"-c {key}={value}" for key, value in VALUE_SETTINGS.items())
    address = Address.parse(postgres.url(name), postgres.password)
    with psycopg.connect(postgres.conninfo(name), autocommit=True, options=settings) as session:
        yield Tables(session, address)


@dataclass(frozen=True)
class Travelled:
    """What became of a table on its way through Arrow and Parquet into its copy."""

    columns: tuple[Column, ...]
    stored: pa.Table
    source: ContentHash
    files: ContentHash
    copies: set[ContentHash]
    differing_rows: int


class Tables:
    """A database to make tables in, each with a name of its own, and to send their rows around."""

    def __init__(self, session: psycopg.Connection[Any], address: Address) -> None:
        self.session = session
        self._address = address

    def create(self, definition: str) -> str:
        """Create a table with these columns and return its quoted, qualified name."""
        name = f'public."table {next(_numbers)}"'
        self.session.execute(f"create table {name} ({definition})".encode())
        return name

    def fill(self, table: str, rows: str) -> None:
        """Insert rows, given as a VALUES list or a query."""
        self.session.execute(f"insert into {table} {rows}".encode())

    def written(self, definition: str, *values: str) -> tuple[str, pa.RecordBatch]:
        """Create a table with these columns and rows, and return its name and the rows as they are read."""
        table = self.create(definition)
        for value in values:
            self.fill(table, value)
        [batch] = self.read(table, Decoder(self.columns(table)))
        return table, batch

    def columns(self, table: str) -> tuple[Column, ...]:
        """Return the table's columns as the catalog gives them."""
        found = self.session.execute("select %s::regclass::oid::int8", (table,)).fetchone()
        assert found is not None
        return read_columns(self.session, [found[0]])[found[0]]

    def read(self, table: str, decoder: Decoder) -> list[pa.RecordBatch]:
        """Return the table's rows as a plain COPY gives them, or a query where that gives not all."""
        if any(column.generated == "s" for column in decoder.columns):
            return self.read_by_query(table, decoder)
        copied = CopyDecoder(decoder)
        return [copied.decode(*sent) for sent in self._copied(copied.statement(table))]

    def read_by_query(self, table: str, decoder: Decoder) -> list[pa.RecordBatch]:
        """Return the same rows, sent by a query."""
        query = f"select {decoder.select_list()} from only {table}"
        return [decoder.decode(from_binary(decoder.stored, *sent)) for sent in self._by_query(query)]

    def read_by_columns(self, table: str, decoder: Decoder) -> list[pa.RecordBatch]:
        """Return the same rows, sent column by column: one half, none, then the other."""
        halves = ("id % 2 = 0", "false", "id % 2 = 1") if "id" in decoder.schema.names else ("true", "false")
        query = " union all ".join(
            f"select {decoder.columnar.select_list()} from only {table} where {half}" for half in halves
        )
        answers = (decoder.columnar.answers(*sent) for sent in self._by_query(query))
        return [decoder.decode(decoder.columnar.rows(batch)) for batch in answers]

    def _by_query(self, query: str) -> Iterator[tuple[bytes, list[int]]]:
        return self._copied(f"COPY ({query}) TO STDOUT (FORMAT binary)")

    def _copied(self, statement: str) -> Iterator[tuple[bytes, list[int]]]:
        with connect(self._address) as reader:
            for _, octets, sizes in copy_out(reader, self._address, [statement]):
                yield octets, sizes

    def hash(self, table: str, columns: Sequence[Column]) -> ContentHash:
        """Return the content hash as the server computes it."""
        encoding = self.session.info.parameter_status("server_encoding") or ""
        row = self.session.execute(hash_select(f"only {table}", columns, encoding=encoding).encode()).fetchone()
        assert row is not None
        return ContentHash(int(row[0]), int(row[1]))

    def travel(self, table: str) -> Travelled:
        """Send a table through a Parquet file into two copies of it, by either format of COPY."""
        columns = self.columns(table)
        decoder = Decoder(columns)
        file = io.BytesIO()
        with pq.ParquetWriter(file, decoder.schema) as writer:
            for batch in self.read(table, decoder):
                writer.write_batch(batch)
        stored = pq.read_table(file)
        batches = stored.combine_chunks().to_batches()
        by_text, copy = self._copy(table), self._copy(table)
        with self.session.cursor() as cursor:
            with cursor.copy(copy_statement(by_text, columns).encode()) as stream:
                for batch in batches:
                    stream.write(encode(columns, batch))
            assert copy_in(cursor, copy, columns, batches) == stored.num_rows
        return Travelled(
            columns=columns,
            stored=stored,
            source=self.hash(table, columns),
            files=sum((digest(columns, batch) for batch in batches), ContentHash()),
            copies={self.hash(each, self.columns(each)) for each in (by_text, copy)},
            differing_rows=self._difference(table, by_text) + self._difference(table, copy),
        )

    def _copy(self, table: str) -> str:
        return self.create(f"like {table} including generated including identity")

    def _difference(self, one: str, other: str) -> int:
        """Return how many rows differ in their text, a comparison that shares nothing with the hash."""
        query = f"select count(*) from (select t::text from {one} t except all select t::text from {other} t) d"
        row = self.session.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])
