"""What a server's decoding puts on its disk."""

from __future__ import annotations

from pathlib import Path

from bench.changes.source_disk import SourceDisk


def test_temporary_results_and_spilled_transactions_count_and_the_most_is_kept(tmp_path: Path) -> None:
    for name, size in (
        ("base/pgsql_tmp/pgsql_tmp1.0", 300),
        ("pg_replslot/one/xid-7.spill", 50),
        ("pg_replslot/one/state", 200),
        ("base/5/1259", 1000),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    disk = SourceDisk(tmp_path)
    assert disk.most == 0
    disk(1)
    assert disk.most == 350
    (tmp_path / "base/pgsql_tmp/pgsql_tmp1.0").unlink()
    disk(1)
    assert disk.most == 350
