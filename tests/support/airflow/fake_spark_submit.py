"""Stands in for spark-submit: asks the test what to say and how to end, and starts a process beside itself.

What the job does is done by the test's own process (`tests/support/airflow/fake_spark.py`), which has imported all
that it needs: this one starts in a few hundredths of a second.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time


def main() -> int:
    """Play the part."""
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    child = os.posix_spawnp("sleep", ["sleep", "600"], os.environ, file_actions=silent)
    asks = {"argv": sys.argv, "env": dict(os.environ), "pids": [os.getpid(), child]}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0" + os.environ["FAKE_SPARK_ANSWERS"])
        connection.sendall(json.dumps(asks).encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as told:
            answer = json.loads(told.read())
    sys.stderr.write(answer["said"])
    sys.stderr.flush()
    if answer["ends"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if answer["ends"] == "hangs":
        time.sleep(600)
    os.kill(child, signal.SIGKILL)
    return int(answer["ends"])


if __name__ == "__main__":
    sys.exit(main())
