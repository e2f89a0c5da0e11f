"""What the DAG files build their DAGs from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Param

from holdfast.config import find_config, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config import ArchiveConfig

ALL = "all"
"""In a form: every source."""

ONE_SOURCE = "{{ '' if params.source == '" + ALL + "' else params.source }}"
"""A template: the source that the form names, or nothing where it says all."""


def configured_archives() -> Mapping[str, ArchiveConfig]:
    """Return the archives of archives.yaml by name; none where there is no such file.

    :raises UsageError: a mistake in the file; Airflow shows the sentence as the DAG file's import error.
    """
    path = find_config()
    return load_config(path).archives if path is not None else {}


def source_param(archive: ArchiveConfig, description: str) -> Param:
    """Return a form's field that names one source of an archive, or all.

    The archive may hold others, of earlier times, so that a name of one's own may be written where none is known.
    """
    sources = sorted(archive.sources)
    known = {"enum": [ALL, *sources]} if sources else {"type": "string", "minLength": 1}
    return Param(ALL, **known, title="Source", description=description)
