"""End what a task process has started."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped]


def end_children(*, polite_s: float = 1.5, forced_s: float = 1.0) -> None:
    """End every process below this one: SIGTERM, then SIGKILL for those that stay.

    Killing spark-submit alone would leave its Python driver running, as an orphan.

    :param polite_s: seconds between the two signals.
    :param forced_s: seconds to wait for the end after the second.
    """
    running = psutil.Process().children(recursive=True)
    for process in running:
        _signal(process.terminate)
    _, stubborn = psutil.wait_procs(running, timeout=polite_s)
    for process in stubborn:
        _signal(process.kill)
    psutil.wait_procs(stubborn, timeout=forced_s)


def _signal(send: object) -> None:
    try:
        send()  # type: ignore[operator]
    except psutil.NoSuchProcess:
        return
