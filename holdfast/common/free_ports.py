"""Free ports of this machine for servers that take a while to listen."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final

_LOWEST: Final = 15_000
_USUAL_LOCAL: Final = 32_768
LOCAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""File of Linux with the first and the last port of outgoing connections. Source: ip(7)."""

_TRIES: Final = 100


def free_port(local_range: Path = LOCAL_RANGE) -> int:
    """Return a free port of 127.0.0.1 below those of outgoing connections, else one that the system chooses.

    The system may give its choice to a connection before the server listens: Airflow takes 20 s.

    :param local_range: file with the first and the last port of connections.
    """
    below = _first_local(local_range)
    for _ in range(_TRIES):
        if below <= _LOWEST:
            break
        port = _LOWEST + secrets.randbelow(below - _LOWEST)
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        chosen: int = probe.getsockname()[1]
        return chosen


def _first_local(local_range: Path) -> int:
    try:
        return int(local_range.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_LOCAL


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
