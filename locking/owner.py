"""Owner of a lock, and the only proof that frees it early: its process is gone from this machine."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Scope = Literal["process", "task", "run"]

Liveness = Literal["running", "gone", "unknown"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_START_FIELD = 22  # of ``/proc/<pid>/stat`` (proc(5)): when the process started, in clock ticks since boot
_ENDED = frozenset("ZX")  # states of a process that runs no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Owner of a lock; the process's own part is filled in when the lock is taken.

    :param scope: how long the owner lives: "process", an Airflow "task", or an Airflow "run" whose lock outlives the
        process that took it
    :param boot_id: the machine's present boot; differs on every machine
    :param pid_namespace: process ids mean nothing in another one (containers)
    :param process_start: clock ticks since boot; differs for a later process of the same number
    """

    scope: Scope = "process"
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    user: str = ""
    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    pid: int = 0
    process_start: int = 0

    def here(self) -> Owner:
        """Return this owner, as the present process."""
        return replace(
            self,
            user=self.user or _user(),
            host=socket.gethostname(),
            boot_id=boot_id(),
            pid_namespace=_pid_namespace(),
            pid=os.getpid(),
            process_start=_process_start(os.getpid()) or 0,
        )

    def describe(self) -> str:
        """Return words such as "task load of dag shop (run r1), process 7 on host-a as airflow"."""
        words = []
        if self.task_id is not None:
            index = f"[{self.map_index}]" if self.map_index is not None and self.map_index >= 0 else ""
            words.append(f"task {self.task_id}{index} of")
        if self.dag_id is not None:
            words.append(f"dag {self.dag_id} (run {self.run_id}),")
        words.append(f"process {self.pid} on {self.host or 'an unknown host'} as {self.user or 'unknown'}")
        return " ".join(words)


def process_is_gone(owner: Owner) -> bool:
    """Return whether the owner's process has certainly ended; False where that is not known here."""
    machine = (boot_id(), _pid_namespace())
    if not all(machine) or machine != (owner.boot_id, owner.pid_namespace) or owner.pid <= 0:
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    except OverflowError:  # the number of no process: it is forged
        return False
    fields = _status(owner.pid)
    if fields is None:
        return False
    # One that no parent has waited for yet (a container's first process may never do) has ended all the same.
    ended = fields[0] in _ENDED
    return ended or (owner.process_start > 0 and _start_of(fields) != owner.process_start)


def liveness(owner: Owner) -> Liveness:
    """Return whether the owner's process runs here, is gone for certain, or cannot be seen."""
    if process_is_gone(owner):
        return "gone"
    machine = (boot_id(), _pid_namespace())
    if not all(machine) or machine != (owner.boot_id, owner.pid_namespace) or owner.process_start <= 0:
        return "unknown"
    return "running" if _process_start(owner.pid) == owner.process_start else "unknown"


def _process_start(pid: int) -> int | None:
    fields = _status(pid)
    return None if fields is None else _start_of(fields)


def _start_of(fields: list[str]) -> int:
    return int(fields[_START_FIELD - 3])


def _status(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from the third on: state, parent and so on."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, and may contain anything.
    return status.rpartition(")")[2].split()


def boot_id() -> str:
    """Return the id of this machine's present boot; "" where it has none."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return ""


def _pid_namespace() -> str:
    with contextlib.suppress(OSError):
        return str(_NAMESPACE.readlink())
    return ""


def _user() -> str:
    # A process may run under a number that no name belongs to.
    with contextlib.suppress(KeyError, OSError):
        return getpass.getuser()
    return str(os.getuid())
