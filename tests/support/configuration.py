"""archives.yaml without a mistake, as tests read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import Config
from holdfast.config.archives_yaml import read_archives

if TYPE_CHECKING:
    from pathlib import Path


def load_config(path: Path | str | None = None) -> Config:
    """Return the archives of a file.

    :raises UsageError: the file's first mistake.
    """
    read = read_archives(path)
    for mistake in read.mistakes.values():
        raise UsageError(mistake)
    return Config(archives=dict(read.archives))
