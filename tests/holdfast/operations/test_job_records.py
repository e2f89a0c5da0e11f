"""Where a job's records go."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.common.signing import Signing
from holdfast.operations.job_process import RECORDS_VARIABLE
from holdfast.operations.job_records import records_of
from holdfast.storage import open_store
from tests.support.signers import new_signer

ADDRESS = "file:/key"


@pytest.mark.parametrize("who", [Signing(), Signing(ADDRESS), Signing(ADDRESS, ("ed25519:x",))])
def test_they_go_into_the_archive_where_they_count_there(tmp_path: Path, who: Signing) -> None:
    store = open_store(str(tmp_path), None, who)
    with records_of(store) as (records, variables):
        assert (records, variables) == (store, {})


@pytest.mark.parametrize("unlocked", [True, False])
def test_else_they_go_to_the_parent_alone_and_are_gone_after_it(tmp_path: Path, *, unlocked: bool) -> None:
    who = Signing() if unlocked else Signing(signers=(new_signer(tmp_path / "key")[1],))
    store = open_store(str(tmp_path / "archive"), None, who)
    with records_of(store, unlocked=unlocked) as (records, variables):
        folder = Path(variables[RECORDS_VARIABLE])
        records.create("runs/r/000000.json", b"1")
        assert (folder / "runs" / "r" / "000000.json").read_bytes() == b"1"
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    assert not (tmp_path / "archive").exists()
