"""A plugin of pytest that lets a run of tests leave nothing behind, however it ends.

The process that is started as pytest becomes a supervisor, and starts pytest once more below itself. When that ends, by
itself or by force, or when a signal says so, the supervisor ends every process that came of it and removes the one
folder in which all of their temporary files are. What a supervisor leaves that is killed with SIGKILL is swept by the
next run.

Input, output and the exit code are pytest's own. A second signal takes from pytest the time to sum up. `--pdb`,
`--trace` and debuggers of editors go without a supervisor: Ctrl-C is theirs. So does
`-p no:tests.support.runs.supervision`, which keeps the files of tests that fail, as `--basetemp` does.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from demo.supervisor import Supervisor, descendants, end_all

SUPERVISOR = "HOLDFAST_TEST_SUPERVISOR"
"""The environment variable that tells a process of tests who supervises it: an id."""

PREFIX = "holdfast-tests-"
"""How the folder of a run begins. It is short: the sockets of servers are in it, and their paths may not be long."""

GOODBYE_S = 4.0
"""Seconds that tests have to end their servers, after a signal or when pytest ended by itself."""

SUM_UP_S = 2.0
"""Seconds that pytest then has to sum up, once all else has been told to end."""

TERM_S = 1.0
KILL_S = 3.0
_MEMORY = "/dev/shm"  # noqa: S108 - not ours to choose
_PR_SET_PDEATHSIG = 1
_SI_KERNEL = 0x80
_IPC_RMID = 0
_LIBC = ctypes.CDLL(None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Become the supervisor, before output is captured and before a conftest makes a folder or imports much."""
    if supervisor := os.environ.get(SUPERVISOR):
        _die_with(int(supervisor))
    elif not _is_debugged(early_config):
        raise SystemExit(_supervise([sys.executable, *sys.orig_argv[1:]]))
    return (yield)


def _is_debugged(config: pytest.Config) -> bool:
    options = config.known_args_namespace
    return options.usepdb or options.trace or "pydevd" in sys.modules


def _die_with(supervisor: int) -> None:
    """See to it that this process is killed when its supervisor is; one further down has somebody else for that."""
    if os.getppid() == supervisor:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _supervise(command: list[str]) -> int:
    folder, held = _new_folder()
    try:
        _sweep()
        # Java knows nothing of TMPDIR, and keeps a file on each of its processes in /tmp.
        java = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={folder} -XX:-UsePerfData".strip()
        os.environ |= {SUPERVISOR: str(os.getpid()), "TMPDIR": str(folder), "SPARK_SUBMIT_OPTS": java}
        return _Run(command).run()
    finally:
        _remove(folder)
        os.close(held)


class _Run(Supervisor):
    """Runs pytest, which has this process's own standard input."""

    # Whoever started this with nohup(1) has SIGHUP ignored on purpose.
    ends_on = tuple(
        number
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    )

    def run(self) -> int:
        """Run pytest; the exit code is never 0 after a signal."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
        code = super().run()
        return code or (128 + signal.SIGINT if self._signals else 0)

    @property
    def _awaited(self) -> tuple[signal.Signals, ...]:
        return (*self.ends_on, signal.SIGCHLD)

    def _start(self) -> int:
        # SIGINT, too: a shell that starts this in the background has it ignored.
        heard = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT]
        return os.posix_spawn(self._command[0], self._command, os.environ, setsigmask=[], setsigdef=heard)

    def _wait(self) -> None:
        self._listen(1, math.inf)
        if self._signals:
            self._listen(2, GOODBYE_S)
            # What pytest waits for in vain goes before it, so that it still sums up.
            _tell(descendants(os.getpid()) - {self._child}, signal.SIGTERM)
            self._listen(2, SUM_UP_S)

    def _listen(self, enough: int, seconds: float) -> None:
        """Wait until pytest has ended, for so many signals in all, or for some time."""
        deadline = time.monotonic() + seconds
        while self._child_runs and self._signals < enough and time.monotonic() < deadline:
            said = signal.sigtimedwait(self._awaited, 0.2)
            if said is not None and said.si_signo != signal.SIGCHLD:
                self._signals += 1
                # A terminal has told all of pytest's process group, workers too; of the rest, only we know.
                if self._signals == 1 and said.si_code != _SI_KERNEL:
                    _tell(_in_our_group(descendants(os.getpid())), signal.SIGINT)
            self._reap()

    def _end(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._awaited)
        if not self._signals and self._code < 128:
            self._tell_what_is_left()
        signals_before = self._signals
        _end(self._running, lambda: self._signals > signals_before)
        self._reap()

    def _tell_what_is_left(self) -> None:
        deadline = time.monotonic() + GOODBYE_S
        while (left := self._running()) and not self._signals and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            names = ", ".join(sorted(f"{os.fsdecode(_read(pid, 'comm')).strip()} ({pid})" for pid in left))
            sys.stderr.write(f"supervision: ends what tests left running: {names}\n")


def _tell(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _in_our_group(pids: set[int]) -> set[int]:
    return {pid for pid in pids if _group(pid) == os.getpgrp()}


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _end(find: Callable[[], set[int]], is_enough: Callable[[], bool] = lambda: False) -> None:
    """End processes, and remove the shared memory of those that have to be killed: they cannot."""
    end_all(find, signal.SIGTERM, TERM_S, is_enough)
    memory = _shared_memory(find())
    end_all(find, signal.SIGKILL, KILL_S)
    for name, number in memory:
        if name.startswith("/SYSV"):
            _LIBC.shmctl(number, _IPC_RMID, None)
        else:
            Path(name).unlink(missing_ok=True)


def _shared_memory(pids: set[int]) -> set[tuple[str, int]]:
    """Return the names of what processes share, each with its number. Source: proc(5), /proc/pid/maps."""
    lines = [line.split(maxsplit=5) for pid in pids for line in os.fsdecode(_read(pid, "maps")).splitlines()]
    return {
        (line[5].removesuffix(" (deleted)"), int(line[4]))
        for line in lines
        if len(line) == 6 and line[5].startswith(("/SYSV", _MEMORY))
    }


def _read(pid: int, what: str) -> bytes:
    """Return a file of a process in /proc; nothing of one that has ended, or is another user's."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _new_folder() -> tuple[Path, int]:
    """Make the folder of this run, where TMPDIR says, and hold it; anew where the sweep of another run was faster."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        if (held := _hold(folder)) is not None:
            folder.chmod(0o711)  # the servers of root's tests run as another user, who has to come to theirs
            return folder, held


def _hold(folder: Path) -> int | None:
    """Hold a folder until the descriptor is closed, by whatever ends its process (flock(2)); None if somebody does."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it has just been removed, or is another user's
        return None
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return descriptor
    os.close(descriptor)
    return None


def _remove(folder: Path) -> None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if (place := line.split()[1]).startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False)
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False)
    shutil.rmtree(folder)


def _sweep() -> None:
    """End and remove what runs have left whose supervisor was killed."""
    for place in {tempfile.gettempdir(), "/tmp", _MEMORY}:  # noqa: S108 - where the other runs may have been
        for folder in Path(place).glob(f"{PREFIX}*"):
            if (held := _hold(folder)) is not None:
                if folder.stat().st_uid == os.geteuid():
                    _end(partial(_of_run, folder))
                    _remove(folder)
                os.close(held)


def _of_run(folder: Path) -> set[int]:
    """Return the processes whose temporary files are in a folder, and all below them."""
    mark = b"TMPDIR=" + os.fsencode(folder)
    every = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    own = {pid for pid in every if any(each.startswith(mark) for each in _read(pid, "environ").split(b"\0"))}
    return own.union(*map(descendants, own))
