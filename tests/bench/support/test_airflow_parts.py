"""What each part of an Airflow takes."""

from __future__ import annotations

import os

import pytest

from bench.support.airflow_parts import ABOVE, part_of, taken


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (["python", "/bin/airflow", "scheduler"], "scheduler"),
        (["airflow scheduler -- main"], "scheduler"),
        (["airflow api_server worker"], "api-server"),
        (["/bin/airflow", "dag-processor"], "dag-processor"),
        (["python", "-P", "supervisor.py", "/bin/airflow", "standalone"], ABOVE),
    ],
)
def test_a_part_is_known_by_its_command(command: list[str], part: str) -> None:
    assert part_of(command) == part


def test_what_a_process_takes_is_counted() -> None:
    found = taken(os.getpid())
    assert sum(each.cpu_s for each in found.values()) > 0
    assert sum(each.memory for each in found.values()) > 1_000_000
