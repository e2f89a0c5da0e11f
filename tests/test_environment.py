"""The environment that `make setup` builds is whole: Spark's two distributions and its Java fit together."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def damaged_files(spark: Distribution) -> list[str]:
    """Name the Python files that are missing or differ from the hash the distribution recorded."""
    damaged = []
    for file in spark.files or []:
        if file.suffix == ".py" and file.hash is not None:
            path = Path(str(file.locate()))
            digest = hashlib.sha256(path.read_bytes()).digest() if path.exists() else b""
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                damaged.append(str(file))
    return damaged


@pytest.mark.parametrize("name", ["pyspark", "pyspark-client"])
def test_both_spark_distributions_are_one_version_and_whole(name: str) -> None:
    # Each installs over the other's files, so mixed versions would import without an error.
    spark = distribution(name)

    assert spark.version == "4.2.0"
    assert len(spark.files or []) > 300
    assert damaged_files(spark) == []


def test_spark_gets_a_java_it_supports() -> None:
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    assert java, "no JAVA_HOME and no java on PATH"

    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr

    version = re.search(r'version "(\d+)', said)
    assert version is not None
    assert version[1] in {"17", "21"}


def test_requirements_name_no_registry() -> None:
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        text = file.read_text()
        assert "://" not in text, file.name
        assert not re.search(r"^\s*-(-|[a-z])", text.replace("    --hash=", ""), re.MULTILINE), file.name


def test_every_requirement_is_pinned_and_hashed() -> None:
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"^(?=[a-zA-Z0-9])", file.read_text(), flags=re.MULTILINE)[1:]
        assert entries, file.name
        for entry in entries:
            assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", entry), entry.splitlines()[0]
            assert "--hash=sha256:" in entry, entry.splitlines()[0]
