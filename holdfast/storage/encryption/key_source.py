"""Key that opens an archive, found at its address: a file, a variable, or a command.

A key's address holds no secret. It is what archives.yaml, `HOLDFAST_KEY` and `--key` say, and what goes to other
processes of a job.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shlex
import stat
import subprocess
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.storage.encryption.sealing import KEY_BYTES
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.common.remote_environment import RemoteEnvironment

logger = line_logger(__name__)

ENVIRONMENT = "HOLDFAST_KEY"  # the environment variable with a key's address
SUPPORTED = "file:/path, env:VARIABLE, command:WORDS that print the key, or kms:WORDS that wrap and unwrap"

_CARRIED = "HOLDFAST_CARRIED_KEY_"  # prefix of the variables that hold keys on other machines
_NONCE_BYTES = 12
_COMMAND_S = 60.0


class WrappingKey(ABC):
    """Key that wraps and unwraps the data keys of an archive, by the address it was found at."""

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Return a fingerprint that tells keys apart; empty where only a command knows the key."""

    @abstractmethod
    def wrap(self, secret: bytes, purpose: str) -> bytes:
        """Return a data key, wrapped: only this key opens it, and only for this purpose."""

    @abstractmethod
    def unwrap(self, wrapped: bytes, purpose: str) -> bytes:
        """Return a data key; UsageError: wrapped by another key, or for another purpose."""


class SecretKey(WrappingKey):
    """A key that this process knows: AES-256-GCM."""

    def __init__(self, address: str, secret: bytes) -> None:
        super().__init__(address)
        self.secret = secret
        self._aead = AESGCM(secret)
        self._fingerprint = HKDF(SHA256(), 8, None, b"holdfast key fingerprint").derive(secret).hex()

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def wrap(self, secret: bytes, purpose: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, secret, purpose.encode())

    def unwrap(self, wrapped: bytes, purpose: str) -> bytes:
        try:
            return self._aead.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError):
            raise UsageError(f"the key at {self.address} is not the one that opens this archive") from None


class ServiceKey(WrappingKey):
    """A key that never leaves the service of a command."""

    def __init__(self, address: str, words: list[str]) -> None:
        super().__init__(address)
        self._words = words

    @property
    def fingerprint(self) -> str:
        return ""

    def wrap(self, secret: bytes, purpose: str) -> bytes:
        return self.ask(["wrap", purpose], secret)

    def unwrap(self, wrapped: bytes, purpose: str) -> bytes:
        return self.ask(["unwrap", purpose], wrapped)

    def ask(self, words: Sequence[str], body: bytes) -> bytes:
        """Return what the command prints for these words behind its own and `body` as input, both in base64."""
        printed = _run(self.address, [*self._words, *words], base64.b64encode(body))
        try:
            return base64.b64decode(printed.strip(), validate=True)
        except binascii.Error:
            raise HoldfastError(
                f"the command of {self.address} printed no base64 when asked to {words[0]}: "
                "see 'Encryption' in the docs"
            ) from None


def find_key(address: str) -> WrappingKey:
    """Return the key at an address; UsageError: no address or no key; HoldfastError: its command failed."""
    kind, _, rest = address.partition(":")
    if kind == "file" and rest:
        path = Path(rest).expanduser()
        try:
            text = path.read_text(encoding="ascii")
            _warn_of_others(path, stat.S_IMODE(path.stat().st_mode))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the key file {path} cannot be read: {error}") from None
        return SecretKey(address, parse_key(text, f"the key file {path}"))
    if kind == "env" and rest:
        if rest not in os.environ:
            raise UsageError(f"the key's variable of {shown(address)} is not set in this process's environment")
        return SecretKey(address, parse_key(os.environ[rest], f"the variable {rest}"))
    if kind in ("command", "kms") and (words := _words(address, rest)):
        if kind == "kms":
            return ServiceKey(address, words)
        printed = _run(address, words, b"")
        return SecretKey(address, parse_key(printed.decode("ascii", "replace"), f"what {address} printed"))
    raise UsageError(f"the key is said to be at {shown(address)}, which is no address of one: write {SUPPORTED}")


@cache
def _warn_of_others(path: Path, mode: int) -> None:
    if mode & 0o077:
        logger.warning(
            "The key file %s is open to others (mode %04o): chmod 600 %s", path, mode, shlex.quote(str(path))
        )


def carry_key(address: str, remote: RemoteEnvironment) -> str:
    """Add a key to what tasks need on another machine; return its address there.

    One that never leaves its service (`kms:`) stays where it is: its command must be on the workers, too.
    """
    key = find_key(address)
    if not isinstance(key, SecretKey):
        return address
    name = f"{_CARRIED}{key.fingerprint.upper()}"
    remote.add({name: base64.b64encode(key.secret).decode()})
    return f"env:{name}"


def new_key() -> str:
    """Return a new key as text for a key file: 32 random bytes in base64."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode() + "\n"


def parse_key(text: str, where: str) -> bytes:
    """Return a key from its text, in base64 or hexadecimal; UsageError names `where`, not the text."""
    stripped = text.strip()
    try:
        if re.fullmatch(rf"[0-9A-Fa-f]{{{KEY_BYTES * 2}}}", stripped):
            return bytes.fromhex(stripped)
        secret = base64.b64decode(stripped, validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise UsageError(
            f"{where} is no key: a key is {KEY_BYTES} bytes in base64 or hexadecimal, as 'holdfast key new' makes them"
        )
    return secret


def _words(address: str, rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"the command of {address} cannot be read: {error}") from None


def _run(address: str, words: list[str], body: bytes) -> bytes:
    """Run a key's command, and return its output, which is never shown."""
    try:
        ended = subprocess.run(words, input=body, capture_output=True, timeout=_COMMAND_S, check=False)
    except OSError as error:
        raise HoldfastError(f"the command of {address} cannot be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise HoldfastError(f"the command of {address} did not end within {_COMMAND_S:.0f} s") from None
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        raise HoldfastError(
            f"the command of {address} ended with exit code {ended.returncode}" + (f": {lines[-1]}" if lines else "")
        )
    return ended.stdout


def shown(address: str) -> str:
    """Return an address as messages may show it: without a key that was written there by mistake."""
    kind, separator, rest = address.partition(":")
    if kind == "env" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,40}", rest):
        return "'env:…'"
    if kind in ("file", "env", "command", "kms"):
        return address
    return f"'{kind}:…'" if separator and len(kind) < len("command:") else "a place without a kind"
