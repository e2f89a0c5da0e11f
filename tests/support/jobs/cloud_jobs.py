"""Backs up a database and restores it, in one archive after another: run as a program, with one Spark for all."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from holdfast.archive import Archive, locks
from holdfast.archive.format.runs import read_last
from holdfast.operations import job_process
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from sparkjobs import backup, restore


def there_and_back(store: ObjectStore, source: Address, target: Address) -> dict[str, object]:
    """Fill the archive from one database and another database from it; tell how that ended."""
    with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        where = ["--archive", store.url, "--run"]
        os.environ.update(job_process.job_environment(source.url, source.password, held, "source"))
        with hold_snapshot(source) as seen:
            os.environ[job_process.SNAPSHOT_VARIABLE] = seen.snapshot.to_json()
            taken = backup.main([*where, "backup", "--source", "shop"])
        os.environ.update(job_process.job_environment(target.url, target.password, held, "target"))
        restored = restore.main([*where, "restore"])
    filled, emptied = (_result(store, run) for run in ("backup", "restore"))
    return {
        "codes": [taken, restored],
        "backed_up": filled.get("rows"),
        "restored": emptied.get("rows"),
        "equal": emptied.get("equal"),
    }


def _result(store: ObjectStore, run: str) -> dict[str, Any]:
    record = read_last(store, run)
    return (record and record.result) or {}


def main(source: str, *targets_and_urls: str) -> None:
    """Go there and back with each archive, each into a database of its own; `PGPASSWORD` opens them all."""
    password = os.environ["PGPASSWORD"]
    options = "--master local[2,4] --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
    os.environ |= {"PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell", "SPARK_LOCAL_IP": "127.0.0.1"}
    half = len(targets_and_urls) // 2
    for target, url in zip(targets_and_urls[:half], targets_and_urls[half:], strict=True):
        store = Archive.create(open_store(url), name="shop").store
        told = there_and_back(store, Address(source, password), Address(target, password))
        sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
