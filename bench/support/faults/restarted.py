"""A PostgreSQL server that goes through restarts."""

from __future__ import annotations

import os
import signal
import subprocess

from holdfast.postgresql.connection.server import PostgresServer


class RestartedServer(PostgresServer):
    """A server that can be ended and started again, with its data, at its port."""

    def end(self, how: signal.Signals) -> None:
        """End the server.

        :param how: SIGINT ends its sessions and writes a checkpoint; SIGQUIT ends it as a crash does; SIGKILL is sent
            to each of its processes.
        :raises RuntimeError: it does not run.
        """
        if self._process is None:
            raise RuntimeError("the server was not started")
        if how is signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(60)

    def start_again(self) -> None:
        """Start the server that was ended.

        :raises RuntimeError: it was never started.
        """
        if self._base is None:
            raise RuntimeError("the server was not started")
        with (self._base / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self._base / "data"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._base, start_new_session=True,
                env=self._environment(), **self._identity(self._base),
            )  # fmt: skip
        self._wait_until_ready(self._base)

    def restart(self, how: signal.Signals) -> None:
        """End the server, as above, and start it again."""
        self.end(how)
        self.start_again()
