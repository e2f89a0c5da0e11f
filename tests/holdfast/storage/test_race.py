"""Clients that race for one key: who won, and what was kept."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.storage import (
    FolderStore,
    ObjectNotFound,
    ObjectStore,
)
from holdfast.storage.probe import Race

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("won", "unsure", "kept", "fine"),
    [
        ([b"a"], [], b"a", True),
        ([], [b"a", b"b"], b"b", True),
        ([b"a"], [b"b"], b"a", True),
        ([b"a"], [b"b"], b"b", False),
        ([b"a"], [], None, False),
        ([b"a", b"b"], [], b"a", False),
        ([], [], None, False),
        ([], [b"a"], b"c", False),
    ],
)
def test_a_race_is_judged_by_who_won_and_what_was_kept(
    won: list[bytes], unsure: list[bytes], kept: bytes | None, fine: bool
) -> None:
    assert (Race(contenders=3, won=won, unsure=unsure).what_went_wrong(kept) == "") is fine


def test_requests_of_a_race_end_together(store: ObjectStore) -> None:
    sent: list[str] = []
    opened = threading.Event()

    def gate() -> None:
        sent.append("all but the last byte")
        assert opened.wait(10)

    held = store.gated(gate)
    if isinstance(store, FolderStore):
        assert held is store
        return

    def write() -> None:
        held.create("a", b"12345")
        sent.append("all")
        held.replace("a", b"6789", store.head("a").etag)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not sent:
            time.sleep(0.01)
        with pytest.raises(ObjectNotFound):
            store.get("a")
        opened.set()
        writing.result()
    assert sent == ["all but the last byte", "all", "all but the last byte"]
    assert store.get("a") == b"6789"
