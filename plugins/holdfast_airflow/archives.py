"""What the DAG files build their DAGs from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config import find_config, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config import ArchiveConfig


def configured_archives() -> Mapping[str, ArchiveConfig]:
    """Return the archives of archives.yaml by name; none where there is no such file.

    :raises UsageError: a mistake in the file; Airflow shows the sentence as the DAG file's import error.
    """
    path = find_config()
    return load_config(path).archives if path is not None else {}
