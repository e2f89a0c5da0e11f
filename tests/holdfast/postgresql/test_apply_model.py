"""Changes drawn at random do to a table what they do to a dictionary or a multiset of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.values.decode import Decoder
from holdfast.postgresql.values.encode import copy_in
from tests.support.archives.net_changes import apply, copies, deleted, keyed
from tests.support.databases.tables import Tables
from tests.support.generator.trials import tiered

pytestmark = pytest.mark.service

_KEYS = st.tuples(st.integers(1, 3), st.sampled_from(["a", "A", "a ", ""]))
_WORDS = st.one_of(st.none(), st.sampled_from(["", "x", "NULL", "é\t\\N", "y" * 3000]))
_ROWS = st.tuples(_WORDS, st.one_of(st.none(), st.booleans()))


def batch_of(columns: Sequence[Column], found: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    schema = Decoder(columns).schema
    arrays = [pa.array([row[place] for row in found], field.type) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.fixture(scope="module")
def modelled(tables: Tables) -> tuple[str, tuple[Column, ...]]:
    table = tables.create('part int4, key text collate "C", word text, flag bool')
    return table, tables.columns(table)


def loaded(tables: Tables, table: str, columns: Sequence[Column], found: Sequence[tuple[Any, ...]]) -> None:
    tables.session.execute(f"truncate {table}".encode())
    with tables.session.cursor() as cursor:
        copy_in(cursor, table, columns, [batch_of(columns, found)])


def there(tables: Tables, table: str) -> Counter[tuple[Any, ...]]:
    return Counter(tables.session.execute(f"select * from {table}".encode()).fetchall())


@settings(
    max_examples=tiered(25, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    base=st.dictionaries(_KEYS, _ROWS, max_size=8),
    changes=st.dictionaries(_KEYS, st.tuples(st.sampled_from("IUUD"), _ROWS, st.sampled_from([[3], [4], [3, 4]]))),
    is_emptied=st.booleans(),
)
def test_keyed_changes_do_what_a_dictionary_does(
    tables: Tables,
    modelled: tuple[str, tuple[Column, ...]],
    base: dict[tuple[int, str], tuple[Any, ...]],
    changes: dict[tuple[int, str], tuple[str, tuple[Any, ...], list[int]]],
    is_emptied: bool,
) -> None:
    table, columns = modelled
    loaded(tables, table, columns, [(*key, *row) for key, row in base.items()])
    expected = {} if is_emptied else dict(base)
    batches = [keyed(batch_of(columns, [(None,) * 4]), "T")] if is_emptied else []
    for key, (op, row, unchanged) in changes.items():
        if op == "D":
            expected.pop(key, None)
            batches.append(deleted(batch_of(columns, [(*key, *row)]), [1, 2]))
        elif op == "I" or key not in expected:
            expected[key] = row
            batches.append(keyed(batch_of(columns, [(*key, *row)]), "I"))
        else:
            old = expected[key]
            expected[key] = tuple(old[place] if place + 3 in unchanged else row[place] for place in range(2))
            batches.append(keyed(batch_of(columns, [(*key, *row)]), "U", unchanged))
    apply(tables, table, (1, 2), *batches)
    assert there(tables, table) == Counter((*key, *row) for key, row in expected.items())


@settings(
    max_examples=tiered(15, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(data=st.data(), base=st.dictionaries(st.tuples(_KEYS, _ROWS), st.integers(1, 4), max_size=6))
def test_changes_without_a_key_do_what_a_multiset_does(
    tables: Tables,
    modelled: tuple[str, tuple[Column, ...]],
    data: st.DataObject,
    base: dict[tuple[tuple[int, str], tuple[Any, ...]], int],
) -> None:
    table, columns = modelled
    have = Counter({(*key, *row): count for (key, row), count in base.items()})
    loaded(tables, table, columns, list(have.elements()))
    gone = Counter({row: data.draw(st.integers(0, count)) for row, count in have.items()})
    came = Counter(data.draw(st.lists(st.sampled_from([*have, (1, "new", None, None)]), max_size=5)))
    batches = [
        copies(batch_of(columns, [row]), op, count)
        for op, rows_of in (("D", gone), ("I", came))
        for row, count in rows_of.items()
        if count
    ]
    apply(tables, table, (), *batches)
    assert there(tables, table) == have - gone + came
