"""What tests say of jobs that ran in this process."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.archive.runs import RunRecord

Ran = tuple[int, RunRecord]
"""The exit code of a job, and the last record of its run."""

RunJob = Callable[..., Ran]


def failed(ran: Ran) -> tuple[int, str]:
    """Return the exit code and the sentence of a job that failed."""
    code, record = ran
    assert record.state == "failed"
    assert record.error is not None
    assert record.error.exit_code == code
    assert "\n" not in record.error.message
    return code, record.error.message
