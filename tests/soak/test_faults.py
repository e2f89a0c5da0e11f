"""Faults happen to operations of the run alone, are recorded before they happen, and are mended."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from soak.faults import Faults
from soak.journal import Event, Journal, named, read
from soak.servers import Servers
from soak.store_proxy import CALM, proxied
from tests.support.jobs.command import until


@pytest.fixture
def operation(tmp_path: Path) -> Iterator[psutil.Process]:
    """The only operation that runs."""
    with subprocess.Popen(["sleep", "600"]) as command:
        Journal(tmp_path / "journal", "operation-a").write("begin", id="a", pid=command.pid)
        yield psutil.Process(command.pid)
        command.kill()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    link = SimpleNamespace(mend=lambda: None)
    with proxied(1, Journal(tmp_path / "journal", "proxy"), seed=1) as proxy:
        made = SimpleNamespace(folder=tmp_path, proxy=proxy, to_coordination=link, to_sources=link, disk=None)
        yield cast(Servers, made)


@pytest.fixture
def faults(servers: Servers, tmp_path: Path) -> Faults:
    def nothing() -> None:
        pass

    journal = Journal(tmp_path / "journal", "faults")
    return Faults(servers, journal, random.Random(1), restart_scheduler=nothing, restart_load=nothing)


def recorded(folder: Path, *names: str) -> list[Event]:
    return named(read(folder / "journal"), *names)


def is_stopped(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


def test_a_command_that_is_killed_is_recorded_as_killed(
    faults: Faults, operation: psutil.Process, tmp_path: Path
) -> None:
    faults.kill_command()
    until(lambda: operation.status() == psutil.STATUS_ZOMBIE, "the command to end")
    (killed,) = recorded(tmp_path, "killed")
    assert (killed["id"], killed["pid"], killed["command"]) == ("a", operation.pid, True)
    assert [each["kind"] for each in recorded(tmp_path, "fault")] == ["command killed"]


def test_where_nothing_runs_nothing_is_killed_or_suspended(faults: Faults, tmp_path: Path) -> None:
    faults.kill_command()
    faults.kill_process()
    faults.stop_shortly()
    faults.fill_disk()
    assert recorded(tmp_path, "fault", "killed") == []


def test_who_is_suspended_shortly_goes_on_when_all_is_mended(faults: Faults, operation: psutil.Process) -> None:
    faults.stop_shortly()
    until(lambda: is_stopped(operation), "the command to stop")
    faults.mend()
    until(lambda: not is_stopped(operation), "the command to go on")


def test_who_is_suspended_past_a_lease_stays_so_and_is_one_at_a_time(
    faults: Faults, operation: psutil.Process, tmp_path: Path
) -> None:
    faults.stop_past_the_lease()
    until(lambda: is_stopped(operation), "the command to stop")
    faults.mend()
    faults.stop_past_the_lease()
    faults.tick()
    assert is_stopped(operation)
    assert len(recorded(tmp_path, "fault")) == 1


def test_the_weather_and_the_stores_clock_are_mended(faults: Faults, servers: Servers) -> None:
    faults.weather()
    faults.store_clock()
    assert servers.proxy.weather != CALM
    faults.mend()
    assert servers.proxy.weather == CALM
