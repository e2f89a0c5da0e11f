"""Store of a job's records: the archive, or a folder that its parent alone reads."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.operations.job_process import RECORDS_VARIABLE
from holdfast.storage import open_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.storage import ObjectStore


@contextmanager
def records_of(store: ObjectStore, *, unlocked: bool = False) -> Iterator[tuple[ObjectStore, Mapping[str, str]]]:
    """Yield where a job's records go, and the environment variables by which the job knows.

    A job that writes nothing to the archive leaves them in a folder of its parent's, and so does one that cannot sign
    them: in a signed archive they would count for nothing.
    """
    if not (unlocked or store.signing.only_checks):
        yield store, {}
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-records-", ignore_cleanup_errors=True) as folder:
        yield open_place(folder), {RECORDS_VARIABLE: folder}
