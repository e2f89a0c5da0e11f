"""Which packages are pinned, and which of them run at users' places."""

from __future__ import annotations

from pathlib import Path

from scripts.supply_chain import REQUIREMENTS
from scripts.supply_chain.pins import Pin, pins

DEV = """# comment
zope.interface==7.0 \\
    --hash=sha256:00
    # via nothing
psycopg[binary]==3.3.9 ; sys_platform != 'win32' \\
    --hash=sha256:01
"""


def test_each_pin_is_told_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "applications").mkdir()
    (tmp_path / "dev.txt").write_text(DEV)
    (tmp_path / "image.txt").write_text("psycopg==3.3.9\n")
    (tmp_path / "applications" / "one.txt").write_text("psycopg==3.2.0\n")
    assert pins(tmp_path) == [
        Pin("psycopg", "3.2.0", ("applications/one.txt",)),
        Pin("psycopg", "3.3.9", ("dev.txt", "image.txt")),
        Pin("zope-interface", "7.0", ("dev.txt",)),
    ]
    assert [pin.is_runtime for pin in pins(tmp_path)] == [False, True, False]


def test_the_files_of_this_project_are_read() -> None:
    runtime = {pin.name for pin in pins(REQUIREMENTS) if pin.is_runtime}
    assert {"adbc-driver-postgresql", "pyspark", "apache-airflow-core"} <= runtime
    assert "pytest" not in runtime
