"""Findings as they are told from one process to another."""

from __future__ import annotations

import pytest

from holdfast.common.doctor_finding import DoctorFinding


@pytest.mark.parametrize(
    ("remedy", "is_warning", "ok"), [("", False, True), ("free some", False, False), ("x", True, True)]
)
def test_a_finding_comes_back_as_it_was_told(remedy: str, is_warning: bool, ok: bool) -> None:
    finding = DoctorFinding("disk", "none is free", remedy, is_warning)
    assert finding.describe() == {"what": "disk", "found": "none is free", "remedy": remedy, "warning": is_warning}
    assert DoctorFinding.described(finding.describe()) == finding
    assert finding.ok is ok
