"""Spark's classes, prepared once: jobs use them where they fit, and do without them where they do not."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from holdfast import spark_classes
from holdfast.common.errors import HoldfastError
from holdfast.operations import job_process


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the classes are kept, in a folder with a blank in its name."""
    file = tmp_path / "an environment" / "spark.jsa"
    monkeypatch.setattr(job_process, "classes_file", lambda: file)
    return file


@pytest.fixture(
    params=[pytest.param(True, id="a job", marks=pytest.mark.exhaustive), pytest.param(False, id="its start")]
)
def _of_jobs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark runs: all of a job, or its first second alone, which has a tenth of the classes to load and to write.

    What is told to Java, and what Java makes of it, is the same.
    """
    if not request.param:
        monkeypatch.setattr(job_process, "find_application", lambda name: Path("--version"))


def rehearse(tmp_path: Path, *options: str) -> tuple[int, str]:
    """Run two tasks in Spark as a job would; return its exit code, and what was said."""
    log = tmp_path / "spark.log"
    conf = job_process.spark_conf()
    conf[job_process.DRIVER_OPTIONS] = " ".join([conf[job_process.DRIVER_OPTIONS], *options])
    code = job_process.submit("rehearsal", [], job_process.job_environment(None, None, None), conf=conf, log=log)
    return code, log.read_text()


def test_they_lie_in_the_environment_of_this_spark() -> None:
    found = job_process.classes_file()
    assert found is not None
    assert (found.name, found.is_relative_to(sys.prefix)) == ("spark-4.2.0.jsa", True)


def test_a_spark_that_is_not_of_this_environment_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    assert job_process.spark_conf() == job_process.SPARK_CONF
    with pytest.raises(HoldfastError, match="pyspark is not installed"):
        spark_classes.prepare()


def test_where_nothing_was_prepared_java_is_told_nothing(file: Path) -> None:
    assert job_process.spark_conf() == job_process.SPARK_CONF


def test_what_was_prepared_is_told_to_java_as_one_word(file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    conf = job_process.spark_conf()
    options = shlex.split(conf.pop(job_process.DRIVER_OPTIONS))
    assert options[:2] == ["-XX:TieredStopAtLevel=1", f"-XX:SharedArchiveFile={file}"]
    assert conf.items() < job_process.SPARK_CONF.items()


@pytest.mark.slow
@pytest.mark.usefixtures("_of_jobs")
def test_jobs_take_their_classes_from_what_was_prepared(file: Path, tmp_path: Path) -> None:
    assert spark_classes.prepare() == file
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    loaded = tmp_path / "loaded"
    code, _ = rehearse(tmp_path, f"-Xlog:class+load:file={loaded}")
    assert code == 0
    lines = [line for line in loaded.read_text().splitlines() if "org.apache.spark." in line and "Lambda" not in line]
    prepared = sum("shared objects file (top)" in line for line in lines)
    assert prepared > len(lines) / 2


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.usefixtures("_of_jobs")
def test_a_file_that_does_not_fit_is_passed_without_a_word(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"of another Java")
    code, said = rehearse(tmp_path)
    assert (code, "shared archive" in said) == (0, False)


def test_what_was_there_stays_where_spark_fails(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir()
    file.write_bytes(b"earlier")

    def failing(*arguments: object, log: Path, **named: object) -> int:
        log.write_text("no room")
        return 1

    monkeypatch.setattr(job_process, "submit", failing)
    with pytest.raises(HoldfastError, match="Spark ended with exit code 1: no room"):
        spark_classes.prepare()
    assert spark_classes.main() == 1
    assert file.read_bytes() == b"earlier"
    assert len(list(file.parent.iterdir())) == 1
