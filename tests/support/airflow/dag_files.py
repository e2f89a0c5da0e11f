"""The DAG files as Airflow reads them, under an archives.yaml with one of everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

ROOT = Path(__file__).parents[3]

DAGS = ROOT / "plugins" / "holdfast_airflow" / "dags"

TWO = """
archives:
  shop:
    url: s3://backups/shop
    sources: {shop_db: {connection: shop_postgres, objectives: {rpo: 1h}}}
  big:
    url: s3://backups/big
    sources: {a: {connection: a}, b: {connection: b}}
    schedule:
      {full: "@weekly", changes: "*/15 * * * *", compaction: "@hourly", truncation: "@daily", vacuum: "@monthly",
      verification: "0 4 * * *", drill: "@weekly"}
    keep: {daily: 14}
    verification: {deep_within: 10d, budget: 100 GB}
    vacuum: {grace: 48h}
  kept:
    url: s3://backups/kept
  twice:
    replicas: {near: s3://a/twice, far: s3://b/twice}
    store: postgresql://holdfast@db/coordination
"""

MAINTENANCE = ("compaction", "truncation", "vacuum", "archive_verification")

Read = Callable[[str], DagBag]
"""Reads the DAG files with this archives.yaml in force."""


def dag(bag: DagBag, dag_id: str) -> DAG:
    assert bag.import_errors == {}
    return bag.dags[dag_id]
