"""Sentences that report a finished backup or restore."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.operations.sentences import backup_sentence, restore_sentence

BACKUP = {"commit": 7, "kind": "full", "rows": 12_000, "bytes": 2_000_000, "restorable_to": "2026-03-01T12:00:00Z"}
RESTORE = {"restored_to": "2026-03-01T12:00:00Z", "commit": 7, "rows": 12_000, "tables": 3, "seconds": 1.5}

OLDER = {"table": "shop.a", "as_of": "2026-03-01T11:00:00Z"}
EMPTY = {"table": "shop.b", "as_of": None}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "commit 7: 12,000 rows in 2.0 MB; restorable to 2026-03-01T12:00:00Z"),
        ({"tables": 3}, "commit 7: 12,000 rows of 3 tables in "),
        ({"tables": 0}, "12,000 rows of 0 tables in "),
        ({"seconds": 2.0}, "2.0 MB, 2.0 s (6,000 rows/s); restorable"),
        ({"kind": "changes", "tables": 3}, "commit 7: 12,000 changes in "),
        ({"kind": "changes", "transactions": 4000}, "12,000 changes of 4,000 transactions in "),
        (
            {"kind": "changes", "transactions": 4, "begun": ["public.a", "public.b"]},
            "12,000 rows (changes of 4 transactions, and tables that started over: public.a, public.b) in ",
        ),
        ({"quorum": {"replicas": ["far", "near"]}}, "12:00:00Z; far, near have it"),
    ],
)
def test_a_backup_is_told_with_what_is_in_it(more: dict[str, Any], said: str) -> None:
    assert said in backup_sentence({**BACKUP, **more})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "restored to 2026-03-01T12:00:00Z (commit 7): 12,000 rows of 3 tables in 1.5 s, equal to the archive"),
        ({"source": "shop_db"}, "restored shop_db to 2026"),
        ({"lost": ["rows of table a"]}, "archive, except values that the schema cannot hold: rows of table a"),
        ({"unproved_names": ["shop.a"]}, "archive, except names that are not proved: shop.a"),
        ({"not_restored": [1, 2]}, "; not restored: 2 objects, listed above"),
        ({"stale": [OLDER]}, "equal to the archive; 1 table has older rows, listed above"),
        ({"stale": [EMPTY]}, "equal to the archive, except tables restored without rows: shop.b"),
        ({"stale": [OLDER, EMPTY]}, "without rows: shop.b; 1 table has older rows, listed above"),
    ],
)
def test_a_restore_is_told_with_what_differs(more: dict[str, Any], said: str) -> None:
    assert said in restore_sentence({**RESTORE, **more})


def test_a_restore_that_is_equal_says_no_more() -> None:
    assert restore_sentence(RESTORE).endswith("equal to the archive")
