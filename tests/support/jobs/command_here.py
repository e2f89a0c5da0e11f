"""The `holdfast` command in this process, with the inline jobs it starts: it costs none of Python's imports.

It is for tests in which it proves nothing that a command and its job are processes of their own.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO
from unittest.mock import patch

import pytest

from holdfast.cli import main
from holdfast.operations import job_process, ready_process
from holdfast.postgresql.connection.address import Address
from sparkjobs.driver import application as driver
from tests.support.jobs.command import NOTHING, Finished, environment

_make_executor = driver.make_executor
_run_process = job_process.run_process
_INLINE = "sparkjobs.run_inline"
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_here(*arguments: str, address: Address | None = None, more: Mapping[str, str] = NOTHING) -> Finished:
    """Run the command to its end, as `tests.support.jobs.command.run` does in a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _as_it_was(),
        patch.dict(os.environ, environment(address, more), clear=True),
        patch.object(sys, "argv", ["holdfast", *arguments]),
        patch.object(job_process, "run_process", _run),
        patch.object(ready_process, "begin", lambda application: None),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert isinstance(ended.value.code, int)
    return Finished(ended.value.code, out.getvalue(), err.getvalue())


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Put back what a command sets for the rest of its process's life."""
    handlers = {number: signal.getsignal(number) for number in _HANDLED}
    logger = logging.getLogger("locking")
    level = logger.level
    try:
        yield
    finally:
        logger.setLevel(level)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _run(command: Sequence[str], told: Mapping[str, str], output: IO[bytes], on_tick: Callable[[], None]) -> int:
    """Run a job: here, with the executor that the command has chosen; by Spark in processes of its own."""
    if _INLINE not in command:
        return _run_process(command, told, output, on_tick)
    application, *arguments = command[command.index(_INLINE) + 1 :]
    said = io.StringIO()
    with (
        patch.dict(os.environ, told, clear=True),
        patch.object(driver, "make_executor", _make_executor),
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        code: int = importlib.import_module(f"sparkjobs.{application}").main(arguments)
    output.write(said.getvalue().encode())
    return code
