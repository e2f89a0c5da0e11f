from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark

from holdfast.jobs import SPARK_CONF

ZIP = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def run(program: str, *path: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()


def test_the_daemon_is_the_one_that_jobs_are_submitted_with() -> None:
    assert SPARK_CONF["spark.python.daemon.module"] == "sparkjobs.daemon"


def test_what_the_daemon_imports_starts_no_thread_which_a_fork_would_lose() -> None:
    program = (
        "import importlib, os; from sparkjobs.daemon import _IMPORTED; "
        "[importlib.import_module(name) for name in _IMPORTED]; print(len(os.listdir('/proc/self/task')))"
    )
    assert run(program) == ["1"]


def test_pyarrow_makes_arrays_without_pandas_in_a_worker() -> None:
    program = (
        "import sys; from sparkjobs.daemon import _WithoutPandas; sys.meta_path.insert(0, _WithoutPandas()); "
        "import pyarrow as pa; print(pa.array(['a', None]).null_count, 'pandas' in sys.modules)"
    )
    assert run(program) == ["1", "False"]


def test_an_installed_pyspark_is_taken_from_its_folder_where_spark_offers_its_zip() -> None:
    assert run("import pyspark; print(pyspark.__file__)", ZIP)[0].startswith(str(ZIP))
    assert run("import sparkjobs, pyspark; print(pyspark.__file__)", ZIP) == [pyspark.__file__]


def test_a_pyspark_that_is_a_zip_alone_is_left_as_it_is(tmp_path: Path) -> None:
    alone = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    alone.parent.mkdir(parents=True)
    alone.write_bytes(ZIP.read_bytes())
    assert run("import sparkjobs, pyspark; print(pyspark.__file__)", alone)[0].startswith(str(alone))
