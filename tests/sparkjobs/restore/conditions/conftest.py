"""An archive of tables whose rows break what comes later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from tests.support.following.conditioned import BEGINNING
from tests.support.following.followed import Followed, open_followed


@pytest.fixture
def archive(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database without tables, and its archive."""
    with open_followed(address, tmp_path / "archive") as opened:
        yield opened


@pytest.fixture
def followed(archive: Followed) -> Followed:
    archive.make((BEGINNING,))
    archive.back_up()
    return archive
