"""Shared classes for Spark's Java, read and verified once: each job starts about a second sooner.

That is Java's class data sharing (CDS). The file lies in the Python environment whose Spark it is of. Where there is
none, or Java finds that it does not fit (another Java, another Spark), classes are read from Spark's jars as ever.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from holdfast.common.errors import HoldfastError
from holdfast.operations import job_process


def prepare() -> Path:
    """Run Spark once and store the classes that it has loaded; takes about ten seconds.

    :raises HoldfastError: there is no Java, or no Spark in this environment, or it failed; what was there stays.
    """
    file = job_process.classes_file()
    if file is None:
        raise HoldfastError("pyspark is not installed in this Python environment")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made, log = Path(folder) / "classes", Path(folder) / "log"
        options = f'{job_process.SPARK_CONF[job_process.DRIVER_OPTIONS]} "-XX:ArchiveClassesAtExit={made}"'
        environment = job_process.job_environment(None, None, None)
        code = job_process.submit("rehearsal", [], environment, conf={job_process.DRIVER_OPTIONS: options}, log=log)
        if code or not made.exists():
            raise HoldfastError(f"Spark ended with exit code {code}: {log.read_text(errors='replace')[-2000:]}")
        made.replace(file)
    return file


def main() -> int:
    """Prepare this environment and return the exit code.

    An error is printed, and costs nothing but time.
    """
    try:
        print(f"holdfast: {prepare()} lets Spark start faster")  # noqa: T201
    except (HoldfastError, OSError) as error:
        print(f"holdfast: Spark will start as slowly as ever: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
