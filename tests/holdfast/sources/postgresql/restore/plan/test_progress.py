"""What a target says of the restore that is unfinished in it."""

from __future__ import annotations

import pytest

from holdfast.sources.postgresql.restore.plan.progress import TargetClaim


@pytest.mark.parametrize(("position", "at"), [("", "commit:7"), ("0/2A", "lsn:0/2A")])
def test_it_is_gone_on_with_at_the_moment_that_it_is_of(position: str, at: str) -> None:
    claim = TargetClaim("archive", "block", (), (), commit=7, run="run-1", position=position)
    assert claim.at == at
