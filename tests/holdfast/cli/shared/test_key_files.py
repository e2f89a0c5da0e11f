"""New key files."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.cli.shared.key_files import make_key_file
from holdfast.common.errors import UsageError
from holdfast.storage.encryption.key_source import find_key


def test_a_key_file_is_for_its_owner_alone_and_opens(tmp_path: Path) -> None:
    address = make_key_file(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert find_key(address).fingerprint
    with pytest.raises(UsageError, match="may be the only key"):
        make_key_file(tmp_path / "key")
