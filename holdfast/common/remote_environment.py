"""Environment in which the tasks of a job open its stores, databases and keys on other machines.

A driver has credentials, certificates and keys in variables, files and a cloud's SDK; workers of a cluster do not. So
objects add theirs here when they are pickled, and a worker puts it in force before it unpickles anything. It travels in
the closure of Spark's tasks alone.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

IDENTITY_VARIABLE = "HOLDFAST_WORKER_IDENTITY"
"""Variable with the identity of tasks on other machines: `driver` (default), or their `own`, such as a role."""


@dataclass
class RemoteEnvironment:
    """Variables and files that tasks need on another machine.

    :param variables: by name; None for one that must not be set.
    :param files: contents by the name of the variable with their path.
    :param is_renewed: whether its credentials expire and are renewed.
    """

    variables: dict[str, str | None] = field(default_factory=dict, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    is_renewed: bool = False

    in_force: ClassVar[RemoteEnvironment | None] = None
    """The one in force in this process; a worker process serves one application."""

    def add(self, variables: Mapping[str, str | None]) -> None:
        """Add variables; raises UsageError if one has another value."""
        for name, value in variables.items():
            if self.variables.setdefault(name, value) != value:
                raise _two_of(name)

    def add_file(self, variable: str, path: str | Path) -> None:
        """Add a file with its path in a variable; raises UsageError if it cannot be read, or is another one."""
        try:
            content = Path(path).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(f"{path} ({variable}) cannot be read, and Spark's workers need it: {error}") from None
        if self.files.setdefault(variable, content) != content:
            raise _two_of(variable)

    def add_own(self, names: Iterable[str]) -> None:
        """Add variables of this process that are set."""
        self.add({name: os.environ[name] for name in names if name in os.environ})

    def put_in_force(self) -> None:
        """Make this the environment of this process, with files in memory, since workers are often killed."""
        before = RemoteEnvironment.in_force
        if before == self:
            return
        for name, value in self.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for name, content in self.files.items():
            if before is None or before.files.get(name) != content:
                os.environ[name] = _in_memory(name, content)
        RemoteEnvironment.in_force = self


def _in_memory(name: str, content: bytes) -> str:
    """Return the path of a file in memory, which ends with this process."""
    descriptor = os.memfd_create(name)
    os.fchmod(descriptor, 0o600)  # libpq takes no private key that others might read
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return f"/proc/self/fd/{descriptor}"


_collected: ContextVar[RemoteEnvironment | None] = ContextVar("remote_environment", default=None)


@contextmanager
def collected() -> Iterator[RemoteEnvironment]:
    """Collect the needs of all objects that this thread pickles meanwhile for another machine."""
    token = _collected.set(RemoteEnvironment())
    try:
        yield needed()  # type: ignore[misc]
    finally:
        _collected.reset(token)


def needed() -> RemoteEnvironment | None:
    """Return the environment to add needs to; None unless objects are pickled for another machine."""
    return _collected.get()


def is_driver_who_asks() -> bool:
    """Return whether tasks use the driver's credentials for stores; raises UsageError for an invalid setting."""
    identity = os.environ.get(IDENTITY_VARIABLE) or "driver"
    if identity not in ("driver", "own"):
        raise UsageError(f"{IDENTITY_VARIABLE} is {identity!r}; it may be one of: driver, own.")
    return identity == "driver"


def _two_of(name: str) -> UsageError:
    return UsageError(
        f"parts of this job need different values of {name}, and the tasks of one job have one environment: give both "
        "parts the same, or run the job on one machine (HOLDFAST_SPARK_MASTER=local[*])"
    )
