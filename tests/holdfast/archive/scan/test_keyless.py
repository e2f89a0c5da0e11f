"""Values of a table without a key are distinguished by SQL; what that leads to is in test_net_changes.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.keyless import alike

NAN, INFINITY = float("nan"), float("inf")
LONG = "x" * 65

DIFFERENT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers": (pa.int64(), [0, 1, -1, None]),
    "floats": (pa.float64(), [0.0, -0.0, 1.0, NAN, INFINITY, -INFINITY, None]),
    "texts": (pa.string(), ["", "v", "s", "A", "a", "a ", "a\0", "ä", "a\u0308", LONG[:64], LONG, LONG + "y", None]),
    "bytes": (pa.binary(), [b"", b"\0", b"v", b"41", b"A", b"x" * 64, b"x" * 65, b"x" * 64 + b"y", None]),
    "truths": (pa.bool_(), [True, False, None]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_each_value_is_told_from_all_others_and_is_like_itself(tmp_path: Path, what: str) -> None:
    kind, values = DIFFERENT[what]
    names = ", ".join(f"({expression})::{of}" for expression, of in alike(pa.field("c", kind), "c"))
    with open_engine(64 << 20, tmp_path) as engine:
        engine.register("incoming", pa.table({"c": pa.array(values * 2, kind)}))
        counts = engine.execute(f"select count(*) from incoming group by {names}").fetchall()
    assert counts == [(2,)] * len(values)
