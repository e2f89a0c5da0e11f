"""Settings for work with replicas: where the coordination store is, and the quorum of a backup.

What is here needs no database driver: most archives are at one place.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

COORDINATION_VARIABLE = "HOLDFAST_STORE"
"""The environment variable that says where the coordination store is."""

REPLICAS_VARIABLE = "HOLDFAST_REPLICAS"
"""The environment variable that says where replicas are, for jobs: a JSON object of their URLs by name."""

MIN_KEEP = 100
"""So many of the newest entries of an update log stay in any case."""

MAX_KEEP = 10_000
"""So many entries are kept for a replica that is away; then it is lost."""

QUORUM_TIMEOUT_S = 3600.0
"""Seconds that replicas have for a backup that needs a quorum, unless an option says otherwise."""


@dataclass(frozen=True)
class QuorumRequest:
    """Quorum of a backup: so many replicas hold it within `timeout` seconds, or it does not count."""

    size: int
    timeout: float = QUORUM_TIMEOUT_S

    @classmethod
    def of(cls, size: int, timeout: float) -> QuorumRequest | None:
        """Return the request; None where one replica is enough."""
        return cls(size, timeout) if size > 1 else None


@dataclass(frozen=True)
class CoordinationAddress:
    """Address of a coordination store, with the URLs by name of configured replicas."""

    url: str | None
    replicas: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def resolve(
        cls, url: str | None = None, *, configured: str | None = None, replicas: Mapping[str, str] | None = None
    ) -> Self:
        """Return the address from what was said, the environment and archives.yaml, in this order."""
        named = replicas or parse_replicas_setting(os.environ.get(REPLICAS_VARIABLE, ""))
        return cls(url or os.environ.get(COORDINATION_VARIABLE) or configured, named)

    def environment(self) -> dict[str, str]:
        """Return the variables by which a job has the same address."""
        said = {COORDINATION_VARIABLE: self.url, REPLICAS_VARIABLE: self.replicas and replicas_setting(self.replicas)}
        return {name: value for name, value in said.items() if value}


AnyAddress = CoordinationAddress | str | None
"""Address of a coordination store, with or without the replicas that a configuration names; None for what the
environment says of both.
"""


def parse_replicas_setting(text: str) -> dict[str, str]:
    """Return the URLs of replicas by name, as `REPLICAS_VARIABLE` has them, or raise UsageError."""
    try:
        urls = json.loads(text or "{}")
    except ValueError:
        urls = None
    if isinstance(urls, dict) and all(isinstance(url, str) for url in urls.values()):
        return urls
    raise UsageError(f'{REPLICAS_VARIABLE} is to be a JSON object such as {{"near": "/srv/near/shop"}}: correct it')


def replicas_setting(replicas: Mapping[str, str]) -> str:
    """Return the URLs of replicas by name, as `REPLICAS_VARIABLE` has them."""
    return json.dumps(dict(replicas), sort_keys=True)
