"""Temporary credentials of S3 with a clock of their own, and a server that refuses those that have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from botocore.credentials import RefreshableCredentials

from tests.support.stores.fake_s3 import Fault, Received

LIFE = timedelta(hours=1)


class Provider:
    """Stands for what gives credentials, such as a role: each lives for an hour, by this clock.

    :param issued: how many there were.
    :param is_gone: it gives none any more.
    """

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.issued = 0
        self.is_gone = False
        self._ends: dict[str, datetime] = {}

    def issue(self) -> dict[str, str]:
        """Return new credentials."""
        if self.is_gone:
            return {}
        self.issued += 1
        token = f"token-{self.issued}"
        self._ends[token] = self.now + LIFE
        return {
            "access_key": f"key-{self.issued}",
            "secret_key": "secret",
            "token": token,
            "expiry_time": self._ends[token].isoformat(),
        }

    def pass_time(self) -> None:
        """Let all that were issued so far end."""
        self.now += LIFE + timedelta(seconds=1)

    def judge(self, number: int, request: Received) -> Fault | None:
        """Refuse as Amazon S3 does: with a document that a HEAD has not."""
        ends = self._ends.get(request.headers.get("x-amz-security-token", ""))
        return None if ends is not None and self.now < ends else Fault(400, "ExpiredToken")

    def give(self, patch: pytest.MonkeyPatch) -> None:
        """Have all sessions of the SDK find these credentials."""
        first = self.issue()
        made = RefreshableCredentials(
            first["access_key"],
            first["secret_key"],
            first["token"],
            datetime.fromisoformat(first["expiry_time"]),
            self.issue,
            "assume-role",
            time_fetcher=lambda: self.now,
        )
        patch.setattr("botocore.session.Session.get_credentials", lambda session: made)
