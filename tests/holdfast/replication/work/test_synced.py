"""What a sync says that it has done."""

from __future__ import annotations

from holdfast.replication.log.silence import NotAsked
from holdfast.replication.work.synced import Synced


def test_it_is_told_with_who_was_not_asked() -> None:
    synced = Synced("far", 7, 2, files=3, size=900, given_up=(6,), not_asked=(NotAsked("off", "/off", "no answer"),))
    assert synced.describe() == {
        "replica": "far",
        "index": 7,
        "entries": 2,
        "files": 3,
        "bytes": 900,
        "given_up": [6],
        "not_asked": [{"replica": "off", "url": "/off", "why": "no answer"}],
    }
