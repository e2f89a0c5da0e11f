"""Findings as they are told from one process to another."""

from __future__ import annotations

import pytest

from holdfast.common.doctor_finding import DoctorFinding


@pytest.mark.parametrize("remedy", ["", "free some"])
def test_a_finding_comes_back_as_it_was_told(remedy: str) -> None:
    finding = DoctorFinding("disk", "none is free", remedy)
    assert finding.describe() == {"what": "disk", "found": "none is free", "remedy": remedy}
    assert DoctorFinding.described(finding.describe()) == finding
    assert finding.ok is (remedy == "")
