"""The judges of traces find a secret that was told and a process that was left."""

from __future__ import annotations

import os
from pathlib import Path

from soak.checks import traces

CANARIES = {"s3": "canary-0123456789abcdef"}


def test_a_secret_in_a_file_is_found_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "fine.err").write_text("holdfast: the store does not answer")
    fine = traces.check_secrets([tmp_path], CANARIES)
    assert (fine.looked, fine.violations) == (1, [])
    across = b"x" * ((1 << 20) - 5) + CANARIES["s3"].encode() + b"y"
    (tmp_path / "logs" / "told.out").write_bytes(across)
    found = traces.check_secrets([tmp_path], CANARIES)
    assert [each.words for each in found.violations] == [f"the secret of s3 is in {tmp_path / 'logs' / 'told.out'}"]


def test_a_secret_in_arguments_is_found() -> None:
    assert traces.check_arguments({1: "holdfast backup"}, CANARIES).violations == []
    found = traces.check_arguments({1: f"psql password={CANARIES['s3']}"}, CANARIES)
    assert found.violations
    assert CANARIES["s3"] not in found.violations[0].words


def test_a_process_that_is_left_is_found() -> None:
    assert traces.check_processes({}).violations == []
    assert traces.check_processes({7: "java"}).violations


def test_arguments_are_those_of_processes_that_run() -> None:
    found = traces.arguments_of([os.getpid(), 2**22 + 1])
    assert list(found) == [os.getpid()]
    assert "python" in found[os.getpid()] or "pytest" in found[os.getpid()]
