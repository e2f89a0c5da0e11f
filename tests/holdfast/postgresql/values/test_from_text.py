"""A value that comes as text through the stream is the same as one that was read from its table."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest

from holdfast.postgresql.catalog.columns import read_columns
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.copy_out import copy_out
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.values.copy_decoder import from_binary
from holdfast.postgresql.values.decode import Decoder, NoTextError, ValueTooLargeError
from tests.support.databases.every_type import OBJECTS, VALUES
from tests.support.databases.streams import Stream, open_stream
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service


def of_snapshot(stream: Stream, *names: str) -> dict[int, pa.Table]:
    """Return the rows of tables as a query gives them in binary, each by its oid."""
    oids = {name: stream.oid(name) for name in names}
    columns = read_columns(stream.session, list(oids.values()))
    stored = {}
    for name, oid in oids.items():
        decoder = Decoder(columns[oid])
        with connect(stream.address) as session:
            query = f"COPY (select {decoder.select_list()} from only {name}) TO STDOUT (FORMAT binary)"
            sent = [(octets, sizes) for _, octets, sizes in copy_out(session, stream.address, [query])]
        stored[oid] = pa.Table.from_batches([decoder.decode(from_binary(decoder.stored, *rows)) for rows in sent])
    return stored


def test_the_stream_gives_the_same_arrays_as_the_table_for_every_type(address: Address) -> None:
    with connect(address) as session:
        session.execute(OBJECTS.encode())
        for number, kind in enumerate(VALUES):
            session.execute(f'create table public.t{number} (id int4 primary key, "a b" {kind})'.encode())
    tables = ", ".join(f"public.t{number}" for number in range(len(VALUES)))
    with open_stream(address, tables) as stream:
        for number, (kind, values) in enumerate(VALUES.items()):
            rows = ", ".join(f"({row}, ({value})::{kind})" for row, value in enumerate(itertools.chain(values, values)))
            stream.session.execute(f"insert into public.t{number} values {rows}".encode())
        batches, _ = stream.read()
        came: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            came.setdefault(batch.form.oid, []).append(batch.rows)
        tables_stored = of_snapshot(stream, *(f"public.t{number}" for number in range(len(VALUES))))
        for kind, (oid, stored) in zip(VALUES, tables_stored.items(), strict=True):
            found = pa.Table.from_batches(came[oid])
            assert found.schema.names[-4:] == ["__lsn", "__seq", "__op", "__unchanged"]
            found = found.select(range(stored.num_columns))
            assert found.schema.equals(stored.schema, check_metadata=True), kind
            # Bit by bit: NaN is not equal to itself, and -0 is to 0.
            assert [repr(column.to_pylist()) for column in found.columns] == [
                repr(column.to_pylist()) for column in stored.columns
            ], kind


def test_a_batch_may_end_with_a_null_of_any_type(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.postgresql.connection.arrow_session.BATCH_BYTES", 1)
    with connect(address) as session:
        session.execute(OBJECTS.encode())
        for number, kind in enumerate(VALUES):
            session.execute(f"create table public.t{number} (a {kind})".encode())
    with open_stream(address, ", ".join(f"public.t{number}" for number in range(len(VALUES)))) as stream:
        for number in range(len(VALUES)):
            stream.session.execute(f"insert into public.t{number} values (null)".encode())
        batches, _ = stream.read()
        assert [batch.rows.column(0).null_count for batch in batches] == [1] * len(VALUES)


@pytest.mark.parametrize("size", [10, 100_000])
def test_octets_come_right_whatever_their_number(address: Address, size: int) -> None:
    with connect(address) as session:
        session.execute("create table public.t (id int primary key, bits bytea)")
    with open_stream(address, "public.t") as stream:
        stream.session.execute(
            f"insert into public.t values (1, decode(repeat('00ff5c', {size}), 'hex')), (2, null), (3, '')".encode()
        )
        [batch] = stream.read()[0]
        assert batch.rows.column("bits").to_pylist() == [b"\0\xff\\" * size, None, b""]


def test_numbers_between_the_extremes_come_right(address: Address) -> None:
    with connect(address) as session:
        session.execute(
            "create table public.n (id int8 primary key, i2 int2, i4 int4, f4 float4, f8 float8, n numeric(12,2), "
            "w numeric(30,10), t time, z timestamptz, d date, b bytea)"
        )
    with open_stream(address, "public.n") as stream:
        stream.session.execute(
            "insert into public.n select h, h, h, h / 7.0, h / 7e9, h % 9999999999 / 100.0, h * 1.000000007, "
            "time '00:00' + h % 86400000 * interval '1 ms', timestamptz '1970-01-01' + h * interval '1 ms', "
            "date '1500-01-01' + (h %% 400000)::int, int8send(h) from (select (i * 7919 - 15000000) %% 32768 + i %% 3 "
            "as h, i from generate_series(1, 4000) i) x on conflict do nothing".replace("%%", "%").encode()
        )
        (stored,) = of_snapshot(stream, "public.n").values()
        [batch] = stream.read()[0]
        assert stored.num_rows > 3000
        assert pa.Table.from_batches([batch.rows]).select(range(stored.num_columns)).equals(stored)


def test_a_value_above_the_limit_is_refused_by_name(address: Address) -> None:
    with connect(address) as session:
        session.execute("create table public.big (id int primary key, word text, bits bytea)")
    with open_stream(address, "public.big") as stream:
        stream.session.execute("insert into public.big values (1, repeat('x', 10), decode(repeat('00', 10), 'hex'))")
        assert len(stream.read(max_value_bytes=10)[0]) == 1
        stream.session.execute("insert into public.big values (2, null, decode(repeat('00', 11), 'hex'))")
        with pytest.raises(ValueTooLargeError, match=r'public.big, a row changed by .* "bits": a value of 11 bytes'):
            stream.read(max_value_bytes=10)


def test_what_is_written_as_no_text_is_refused_by_name(older: Callable[[int], PostgresServer]) -> None:
    with passing_database(older(14)) as address:
        with connect(address) as session:
            session.execute('create table public.t (id int primary key, letter "char")')
        with open_stream(address, "public.t") as stream:
            stream.session.execute("insert into public.t values (1, 'a'), (2, (-1)::\"char\")")
            with pytest.raises(NoTextError, match='column "letter": PostgreSQL writes a value of type'):
                stream.read()
