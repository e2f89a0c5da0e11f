"""Renewal of a lease while work goes on."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def renewing(renew: Callable[[], object], *, every: float, name: str) -> Iterator[None]:
    """Renew a lease in a thread while the block runs.

    A renewal that fails is passed over: the append decides, since it asks who holds the lease.

    :param every: seconds between two renewals.
    :param name: of the thread.
    """
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(every):
            with suppress(HoldfastError):
                renew()

    renewer = threading.Thread(target=go_on, name=name, daemon=True)
    renewer.start()
    try:
        yield
    finally:
        ended.set()
        renewer.join()
