"""Files of new keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError
from holdfast.storage.encryption.key_source import new_key

if TYPE_CHECKING:
    from pathlib import Path


def make_key_file(path: Path) -> str:
    """Write a new key to a new file that only its owner may read, and return its address.

    :raises UsageError: the file is there, or cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(new_key())
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except FileExistsError:
        raise UsageError(f"{path} is there already, and may be the only key of an archive: name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
    return f"file:{path.absolute()}"
