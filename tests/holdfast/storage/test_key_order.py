"""Whether a store's listings are read in key order: one that is not so is found out."""

from __future__ import annotations

from pathlib import Path

from holdfast.storage.probe import key_order_misses
from tests.support.stores.ordered import Ordered, ReadsBackwards

KEYS = [f"moved-{number:02d}" for number in range(20)]


def test_a_listing_in_key_order_misses_no_client(tmp_path: Path) -> None:
    assert key_order_misses(Ordered(tmp_path), "moved-", KEYS) == 0


def test_a_listing_that_reads_later_names_first_does(tmp_path: Path) -> None:
    assert key_order_misses(ReadsBackwards(tmp_path), "moved-", KEYS) > 0
