"""The audit fails on what is known and not accepted, and on what is accepted without need."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path

import pytest
import yaml

from scripts.supply_chain import REQUIREMENTS, audit
from scripts.supply_chain.advisories import FOLDER, GENERIC, MAVEN, PYPI, Advisory, Snapshot, read_snapshot
from scripts.supply_chain.audit import ACCEPTED, Acceptance, Finding, accepted, age, found, verdict
from scripts.supply_chain.native import UNKNOWN, Library, libraries
from scripts.supply_chain.pins import Pin, pins

TODAY = datetime.date(2026, 11, 27)
TOMORROW = TODAY + datetime.timedelta(days=1)
FINDING = Finding("wheel", "openssl", "3.3.0", "CVE-1")
HERE = {FINDING: "it is bad"}


def known(ecosystem: str, name: str) -> Advisory:
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "4"}]}]
    return Advisory("CVE-1", "it is bad", ({"package": {"ecosystem": ecosystem, "name": name}, "ranges": ranges},))


def test_packages_and_libraries_inside_of_them_are_looked_up() -> None:
    pinned = [Pin("one", "3.0", ("image.txt",)), Pin("one", "4.0", ("dev.txt",))]
    inside = [
        Library("generic", "openssl", "3.3.0", "wheel"),
        Library("generic", "openssl", UNKNOWN, "other"),
        Library("maven", "org.example/one", "1.0", "pyspark"),
    ]
    advisories = [known(PYPI, "one"), known(GENERIC, "openssl"), known(MAVEN, "org.example:one")]
    assert set(found(pinned, inside, advisories)) == {
        Finding("one", "one", "3.0", "CVE-1"),
        FINDING,
        Finding("pyspark", "org.example/one", "1.0", "CVE-1"),
    }


def test_what_is_known_and_not_accepted_is_wrong() -> None:
    assert verdict(HERE, [], TODAY) == ["wheel: openssl 3.3.0 has CVE-1: it is bad"]


def test_what_is_accepted_is_right_until_the_day_to_look_again() -> None:
    acceptance = Acceptance(frozenset(HERE), TOMORROW)
    assert verdict(HERE, [acceptance], TODAY) == []
    assert verdict(HERE, [acceptance], TOMORROW) == [
        "look again at CVE-1: accepted until 2026-11-28",
        "wheel: openssl 3.3.0 has CVE-1: it is bad",
    ]


def test_what_is_accepted_and_not_here_is_to_be_removed() -> None:
    said = verdict({}, [Acceptance(frozenset(HERE), TOMORROW)], TODAY)
    assert said == ["wheel: CVE-1 (openssl 3.3.0) is not here: remove it"]


def test_an_old_snapshot_is_told() -> None:
    assert age(Snapshot(TODAY, ()), TODAY) == "0 advisories, as they were on 2026-11-27"
    assert "more than 30 days ago" in age(Snapshot(TODAY, ()), TODAY + datetime.timedelta(days=31))


def test_every_acceptance_has_a_reason_and_days() -> None:
    for each in yaml.safe_load(ACCEPTED.read_text())["accepted"]:
        assert each["reason"]
        assert each["since"] < each["look_again"]


def test_a_finding_ends_the_audit_with_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "accepted.yaml").write_text("accepted: []\n")
    monkeypatch.setattr(audit, "ACCEPTED", tmp_path / "accepted.yaml")
    inside = [Library("generic", "openssl", "3.3.0", "wheel"), Library("generic", "libldap", UNKNOWN, "wheel")]
    monkeypatch.setattr(audit, "libraries", lambda: inside)
    with pytest.raises(SystemExit) as end:
        audit.main(TODAY)
    assert "audit: wheel: openssl 3.3.0 has CVE-2025-15467:" in str(end.value)
    assert "libldap in wheel does not say its version" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheels of other machines have other libraries inside")
def test_all_that_is_known_against_what_is_installed_here_is_accepted() -> None:
    snapshot = read_snapshot(FOLDER)
    here = found(pins(REQUIREMENTS), libraries(), snapshot.advisories)
    assert verdict(here, accepted(ACCEPTED), snapshot.made) == []
