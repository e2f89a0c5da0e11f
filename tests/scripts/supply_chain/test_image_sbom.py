"""The bill of materials of an image, and the script that builds images, with an engine that is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.supply_chain import image_sbom
from scripts.supply_chain.image_contents import EngineError, Found
from scripts.supply_chain.image_sbom import bill_of_image
from scripts.supply_chain.licences import RULES, read_rules
from scripts.supply_chain.native import Library
from scripts.supply_chain.pins import Pin
from scripts.supply_chain.sbom import text

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / ".ci" / "build-images"
FOUND = [
    Found("deb", "libc6", "2.36-9", "amd64", "glibc"),
    Found("golang", "github.com/versity/versitygw", "v1.8.0"),
    Found("pypi", "celery", "5.7.0"),
    Found("pypi", "holdfast", "0.1.0"),
    Found("pypi", "holdfast-locks", "0.1.0"),
    Found("pypi", "psycopg-binary", "3.3.9"),
]
ENGINE = """#!/bin/sh
case "$1 $*" in
  info*) ;;
  build*) echo "$*" >>"$(dirname "$0")/built" ;;
  *dpkg-query*) printf 'libc6\\t2.36-9\\tamd64\\tglibc\\n' ;;
  *importlib*) ;;
  *"ls /usr/local/bin"*) ;;
  image*) echo 353000000 ;;
  *) exit 1 ;;
esac
"""


def test_each_thing_has_a_url_by_which_advisories_name_it() -> None:
    inside = [Library("generic", "libpq", "17.2", "psycopg-binary"), Library("generic", "zlib", "1", "not there")]
    pinned = [Pin("celery", "5.7.0", ("celery.txt",)), Pin("psycopg-binary", "3.3.8", ("image.txt",))]
    said = json.loads(text(bill_of_image("holdfast-celery:1.0", FOUND, pinned, inside, read_rules(RULES))))
    root = said["metadata"]["component"]
    assert (root["type"], root["name"], root["version"]) == ("container", "holdfast-celery", "1.0")
    components = {each["purl"]: each for each in said["components"]}
    assert components.keys() == {
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
        "pkg:golang/github.com/versity/versitygw@v1.8.0",
        "pkg:pypi/celery@5.7.0",
        "pkg:pypi/psycopg-binary@3.3.9",
        "pkg:generic/libpq@17.2",
    }
    assert {one["value"] for one in components["pkg:pypi/celery@5.7.0"]["properties"]} == {"runtime", "celery.txt"}
    (depends,) = (each["dependsOn"] for each in said["dependencies"] if each["ref"] == "holdfast-celery:1.0")
    assert len(depends) == len(components) - 1  # a library is its wheel's


def test_an_image_that_cannot_be_looked_at_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(image: str) -> list[Found]:
        raise EngineError(f"{image} is not there")

    monkeypatch.setattr(image_sbom, "contents", fail)
    with pytest.raises(SystemExit, match="images: holdfast:local is not there"):
        image_sbom.main(tmp_path / "bills", ["holdfast:local"])
    assert not (tmp_path / "bills").exists()


def test_without_an_engine_no_image_is_built_and_one_sentence_says_why(tmp_path: Path) -> None:
    for name in ("bash", "env", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run([SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("images: there is no container engine: install Docker")


def test_every_image_is_built_and_has_its_bill_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci")
    for name in (".venv", "scripts", "requirements", "security", "holdfast", "locking"):
        (tmp_path / name).symlink_to(ROOT / name)
    engine = tmp_path / "docker"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "BASE": "debian:12", "TAG": "1.0"}
    done = subprocess.run(
        [tmp_path / ".ci" / "build-images"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    targets = ("s3", "broker", "holdfast", "celery")
    images = ("holdfast-s3", "holdfast-broker", "holdfast", "holdfast-celery")
    built = (tmp_path / "built").read_text().splitlines()
    assert [line.split("--target ")[1].split()[0] for line in built] == [*targets]
    assert all("--build-arg BASE=debian:12" in line for line in built)
    for image in images:
        bill = json.loads((tmp_path / "build" / "images" / f"{image}.cdx.json").read_text())
        assert {each["name"] for each in bill["components"]} == {"libc6"}
    assert "images: holdfast:1.0: 353 MB" in done.stdout
    assert "images: holdfast-s3:1.0: 353 MB" in done.stdout
