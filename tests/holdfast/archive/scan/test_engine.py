"""An engine that several use, one after the other."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from holdfast.archive.scan.engine import apart, open_engine


def test_what_is_made_apart_hides_nothing_and_goes(tmp_path: Path) -> None:
    with open_engine(128 << 20, tmp_path) as engine:
        engine.execute("create table t as select 1 as n")
        for number in (2, 3):
            with apart(engine):
                engine.execute(f"create table t as select {number} as n")
                assert engine.execute("select n from t").fetchall() == [(number,)]
        with pytest.raises(duckdb.CatalogException), apart(engine):
            engine.execute("create table u as select * from missing")
        assert engine.execute("select n from t").fetchall() == [(1,)]
        assert engine.execute("select table_name from duckdb_tables()").fetchall() == [("t",)]


def test_an_engine_reads_and_writes_no_files(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1\n")
    (tmp_path / "spill").mkdir()
    with open_engine(128 << 20, tmp_path / "spill") as engine:
        for statement in (
            f"select * from '{tmp_path}/rows.csv'",
            f"copy (select 1) to '{tmp_path}/out.csv'",
            f"attach '{tmp_path}/other.db'",
            "set enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error, match=r"disabled|locked|while database is running"):
                engine.execute(statement)
