"""Addresses of the keys that sign what is written to an archive, and that check it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

KEY_VARIABLE: Final = "HOLDFAST_SIGNING_KEY"
"""The environment variable with the address of the key that signs."""

SIGNERS_VARIABLE: Final = "HOLDFAST_SIGNERS"
"""The environment variable with the public keys that are believed, separated by spaces or commas."""


class ArchiveKeys(NamedTuple):
    """Addresses of all keys of an archive: the encryption key and the signing keys; None: from the environment."""

    key: str | None = None
    signing: Signing | None = None


AS_ENVIRONMENT_SAYS: Final = ArchiveKeys()


@dataclass(frozen=True)
class Signing:
    """Key that signs, and public keys whose signatures are believed.

    :param key: address of the private key; None: nothing is signed.
    :param signers: public keys, as `ed25519:…` or `file:/path` with one in a line. Without any, only the own key is
        believed; without that, no signature is needed.
    """

    key: str | None = None
    signers: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls) -> Self:
        """Return the keys that this process's environment names."""
        signers = re.split(r"[\s,]+", os.environ.get(SIGNERS_VARIABLE, "").strip())
        return cls(os.environ.get(KEY_VARIABLE) or None, tuple(filter(None, signers)))

    def environment(self) -> Mapping[str, str]:
        """Return the variables that give another process the same keys."""
        variables = {KEY_VARIABLE: self.key or "", SIGNERS_VARIABLE: " ".join(self.signers)}
        return {name: value for name, value in variables.items() if value}

    def to_check(self) -> Signing:
        """Return the keys to check signatures with, without the one that signs."""
        return replace(self, key=None) if self.signers else self

    @property
    def only_checks(self) -> bool:
        """Return whether signatures are needed, and none can be made."""
        return bool(self.signers) and self.key is None

    def __bool__(self) -> bool:
        return self.key is not None or bool(self.signers)
