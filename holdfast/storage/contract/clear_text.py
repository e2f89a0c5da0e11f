"""Stores that are reached in the clear over a network: a process warns of each once."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from locking.one_line import line_logger

logger = line_logger(__name__)


@cache
def warn_of_clear_text(endpoint: str) -> None:
    """Warn of a server, by its address, that speaks plain HTTP and is not on this machine."""
    parts = urlsplit(endpoint)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        logger.warning(
            "%s is reached over a network in the clear: an attacker on the way can change what goes over it, and read "
            "the rows of an archive that is not encrypted: give the server a certificate and write https:// into its "
            "address",
            endpoint,
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
