"""Where keys that sign are said to be, and how that goes to other processes."""

from __future__ import annotations

import pytest

from holdfast.common.signing import KEY_VARIABLE, SIGNERS_VARIABLE, Signing


def test_the_environment_says_who_signs_and_who_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(SIGNERS_VARIABLE, raising=False)
    assert not Signing.from_environment()
    assert Signing.from_environment() == Signing()
    monkeypatch.setenv(KEY_VARIABLE, "file:/key")
    monkeypatch.setenv(SIGNERS_VARIABLE, " ed25519:a, file:/signers\ned25519:b ")
    assert Signing.from_environment() == Signing("file:/key", ("ed25519:a", "file:/signers", "ed25519:b"))


def test_another_process_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Signing("file:/key", ("ed25519:a", "file:/signers"))
    for name, value in told.environment().items():
        monkeypatch.setenv(name, value)
    assert Signing.from_environment() == told
    assert Signing().environment() == {}


def test_who_only_checks_needs_no_key_where_signers_are_named() -> None:
    assert Signing("file:/key", ("ed25519:a",)).to_check() == Signing(None, ("ed25519:a",))
    assert Signing("file:/key").to_check() == Signing("file:/key")  # its own is the only one that is believed
