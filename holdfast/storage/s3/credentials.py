"""Credentials of S3 that end, shared by all stores of a process.

Sessions of the SDK ask for credentials of their own, each time others where they come from a role: parts of one job
would then need different ones.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError

from locking.store import StoreDenied

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials
    from botocore.session import Session

_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
"""Files that say where credentials come from, by the variables that name them. Source: AWS SDK reference, 'Files'."""

_shared: Final[dict[object, RefreshableCredentials]] = {}
_lock: Final = threading.Lock()


class _Sharing:
    def __init__(self, own: Any) -> None:
        self._own = own

    def load_credentials(self) -> Credentials | None:
        key = _asked()
        with _lock:
            if key in _shared:
                return _shared[key]
            credentials: Credentials | None = self._own.load_credentials()
            if isinstance(credentials, RefreshableCredentials):
                _shared[key] = credentials
            return credentials


def _asked() -> object:
    """Return what decides which credentials there are: variables, and the files as they are."""
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    files = [_version(os.environ.get(name) or usual) for name, usual in _FILES.items()]
    return tuple(variables), tuple(files)


def _version(path: str) -> tuple[str, int]:
    file = Path(path).expanduser()
    return str(file), file.stat().st_mtime_ns if file.exists() else 0


def share_credentials(session: Session) -> None:
    session.register_component("credential_provider", _Sharing(session.get_component("credential_provider")))


def credentials_are_renewed(credentials: Credentials | None) -> bool:
    return isinstance(credentials, RefreshableCredentials)


def current_credentials(credentials: Credentials | None) -> ReadOnlyCredentials | None:
    """Return credentials, renewed where they are about to end; StoreDenied: they cannot be."""
    try:
        return None if credentials is None else credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise StoreDenied(
            f"S3 credentials cannot be renewed: {error}. Check what they come from: the role, its token, or the "
            "credential_process of the profile."
        ) from error
