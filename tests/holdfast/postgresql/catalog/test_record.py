"""The stored record of a catalog, whose bytes are those that a forged commit names."""

from __future__ import annotations

import pytest

from holdfast.common.errors import DamagedError
from holdfast.postgresql.catalog.catalog import Catalog


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"record_version": []}', b"[" * 3000])
def test_what_is_no_record_is_damage_that_names_its_file(body: bytes) -> None:
    with pytest.raises(DamagedError, match=r"data/catalog-1\.json is not what a backup writes: .*Restore the commits"):
        Catalog.from_bytes(body, "data/catalog-1.json")
