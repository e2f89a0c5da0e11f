from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from holdfast.postgresql.values import pg_hash

if TYPE_CHECKING:
    from tests.support.databases.tables import Tables

pytestmark = pytest.mark.service

INTEGERS = (0, 1, -1, 255, -256, 2**31 - 1, -(2**31), 2**32, -(2**32), 2**63 - 1, -(2**63), 123456789012345678)


def ask(tables: Tables, query: str, *values: Any) -> list[int]:
    """Return the one bigint column of a query as unsigned numbers."""
    return [row[0] % 2**64 for row in tables.session.execute(query.encode(), values)]


def test_integers_hash_as_the_server_hashes_them(tables: Tables) -> None:
    numbers = np.array(INTEGERS, np.int64)
    expected = ask(tables, "select hashint8extended(v, 0) from unnest(%s::int8[]) v", list(INTEGERS))
    assert pg_hash.hash_int8(numbers).tolist() == expected


def test_a_number_seeded_with_itself_hashes_as_the_server_hashes_it(tables: Tables) -> None:
    expected = ask(tables, "select hashint8extended(v, v) from unnest(%s::int8[]) v", list(INTEGERS))
    assert pg_hash.hash_self(np.array(INTEGERS, np.int64).view(np.uint64)).tolist() == expected


@pytest.mark.parametrize("length", [4, 8])
def test_words_hash_as_their_bytes(tables: Tables, length: int) -> None:
    content = bytes(range(1, length + 1))
    words = [np.frombuffer(content[at : at + 4], np.uint32) for at in range(0, length, 4)]
    expected = ask(tables, "select hash_bytea_extended(%s::bytea, 0)", content) if _bytea_hash(tables) else None
    buffer = np.frombuffer(content + bytes(pg_hash.GROUP), np.uint8)
    [same] = pg_hash.hash_bytes(buffer, np.zeros(1, np.int64), np.array([length])).tolist()
    assert pg_hash.hash_words(words[0], words[1] if length == 8 else None, length).tolist() == [same]
    assert expected in (None, [same])


def _bytea_hash(tables: Tables) -> bool:
    row = tables.session.execute("select to_regproc('hash_bytea_extended')").fetchone()
    return row is not None and row[0] is not None


@pytest.mark.parametrize("shuffled", [False, True])
def test_bytes_of_every_length_hash_as_the_server_hashes_them(tables: Tables, shuffled: bool) -> None:
    lengths = [*range(42), 100, 1023, 1024]
    if shuffled:
        lengths = [lengths[at] for at in np.random.default_rng(1).permutation(len(lengths))]
    texts = ["".join(chr(33 + (length * 7 + at) % 94) for at in range(length)) for length in lengths]
    expected = ask(tables, 'select hashtextextended(t collate "C", 0) from unnest(%s::text[]) t', texts)
    buffer = np.frombuffer("".join(texts).encode() + bytes(pg_hash.GROUP), np.uint8)
    sizes = np.array(lengths, np.int64)
    assert pg_hash.hash_bytes(buffer, np.cumsum(sizes) - sizes, sizes).tolist() == expected


def test_values_of_one_length_hash_the_same_together_as_alone() -> None:
    buffer = np.arange(200, dtype=np.uint8)
    for length in (0, 11, 12, 13, 24, 30):
        starts = np.arange(0, 150, 10, dtype=np.int64)
        together = pg_hash.hash_bytes(buffer, starts, np.full(15, length, np.int64)).tolist()
        alone = [pg_hash.hash_bytes(buffer, starts[at : at + 1], np.array([length]))[0] for at in range(15)]
        assert together == alone
