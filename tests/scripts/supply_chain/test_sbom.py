"""The bill of materials names what is pinned and what is inside of wheels, in CycloneDX's form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.supply_chain import sbom
from scripts.supply_chain.licences import RULES, read_rules
from scripts.supply_chain.native import UNKNOWN, Library
from scripts.supply_chain.pins import Pin

DRIVER = Pin("adbc-driver-postgresql", "1.8.0", ("dev.txt", "image.txt"))
PYTEST = Pin("pytest", "9.0", ("dev.txt",))
INSIDE = [
    Library("generic", "openssl", "3.3.0", "adbc-driver-postgresql"),
    Library("generic", "libldap", UNKNOWN, "adbc-driver-postgresql"),
    Library("maven", "org.example/one", "1.2", "adbc-driver-postgresql"),
    Library("generic", "zlib", "1.3", "not-pinned"),
]
WHEEL = "pkg:pypi/adbc-driver-postgresql@1.8.0"


def test_packages_and_what_is_inside_of_them_are_named() -> None:
    said = json.loads(sbom.text(sbom.bill([DRIVER, PYTEST], INSIDE, read_rules(RULES), sbom.product())))
    assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.6")
    components = {each["purl"]: each for each in said["components"]}
    openssl, ldap, java = "pkg:generic/openssl@3.3.0", "pkg:generic/libldap", "pkg:maven/org.example/one@1.2"
    assert components.keys() == {WHEEL, "pkg:pypi/pytest@9.0", openssl, ldap, java}
    assert components[WHEEL]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    scopes = {purl: each["properties"][-1]["value"] for purl, each in components.items()}
    assert (scopes[WHEEL], scopes["pkg:pypi/pytest@9.0"]) == ("runtime", "development")
    depends = {each["ref"]: each.get("dependsOn", []) for each in said["dependencies"]}
    assert set(depends[WHEEL]) == {f"{one}#adbc-driver-postgresql" for one in (openssl, ldap, java)}


def test_the_file_is_written_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sbom, "libraries", lambda: INSIDE)
    sbom.main(tmp_path / "build" / "all.cdx.json")
    said = json.loads((tmp_path / "build" / "all.cdx.json").read_text())
    assert said["metadata"]["component"]["name"] == "holdfast"
    assert "pinned packages, 4 libraries inside of wheels" in capsys.readouterr().out
