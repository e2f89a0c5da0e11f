"""Where keys are found, and what is said where none is: never the key."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.storage.encryption.key_source import find_key, new_key, parse_key

SECRET = bytes(range(32))
TEXT = base64.b64encode(SECRET).decode()


@pytest.fixture
def addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One and the same key, everywhere a key may be."""
    (tmp_path / "key").write_text(TEXT + "\n")
    (tmp_path / "hex").write_text(SECRET.hex().upper())
    monkeypatch.setenv("SHOP_KEY", TEXT)
    return [
        f"file:{tmp_path / 'key'}",
        f"file:{tmp_path / 'hex'}",
        "env:SHOP_KEY",
        f"command:cat '{tmp_path / 'key'}'",
    ]


def test_a_key_is_the_same_wherever_it_is(addresses: list[str]) -> None:
    keys = [find_key(address) for address in addresses]
    assert len({key.fingerprint for key in keys}) == 1
    wrapped = [key.wrap(b"data key", "a purpose") for key in keys]
    assert len(set(wrapped)) == len(wrapped)
    for key in keys:
        assert {key.unwrap(each, "a purpose") for each in wrapped} == {b"data key"}


@pytest.mark.parametrize(("mode", "is_told"), [(0o600, False), (0o400, False), (0o640, True), (0o644, True)])
def test_a_key_file_that_is_open_to_others_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_told: bool
) -> None:
    path = tmp_path / "key"
    path.write_text(TEXT)
    path.chmod(mode)
    for _ in range(2):
        find_key(f"file:{path}")
    told = [f"The key file {path} is open to others (mode {mode:04o}): chmod 600 {path}"]
    assert caplog.messages == (told if is_told else [])


def test_new_keys_are_keys_and_differ() -> None:
    assert len({parse_key(new_key(), "it") for _ in range(5)}) == 5


def test_a_data_key_is_opened_by_its_own_key_for_its_own_purpose_alone(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(new_key())
    (tmp_path / "two").write_text(new_key())
    one, two = find_key(f"file:{tmp_path / 'one'}"), find_key(f"file:{tmp_path / 'two'}")
    assert one.fingerprint != two.fingerprint
    wrapped = one.wrap(b"data key", "a purpose")
    for key, body, purpose in [(two, wrapped, "a purpose"), (one, wrapped, "another"), (one, b"short", "a purpose")]:
        with pytest.raises(UsageError, match="is not the one that opens this archive"):
            key.unwrap(body, purpose)


SERVICE = """
import base64, sys
assert sys.argv[2] == "a purpose"
body = base64.b64decode(sys.stdin.read())
print(base64.b64encode({"wrap": b"wrapped " + body, "unwrap": body.removeprefix(b"wrapped ")}[sys.argv[1]]).decode())
"""


def test_a_service_wraps_and_unwraps_without_giving_its_key_away(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    key = find_key(f"kms:{sys.executable} {tmp_path / 'service.py'}")
    assert key.fingerprint == ""
    assert key.wrap(b"data key", "a purpose") == b"wrapped data key"
    assert key.unwrap(b"wrapped data key", "a purpose") == b"data key"


def test_a_service_that_fails_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text("raise SystemExit('no such key in region x')")
    with pytest.raises(HoldfastError, match=r"ended with exit code 1: no such key in region x"):
        find_key(f"kms:{sys.executable} {tmp_path / 'service.py'}").unwrap(b"x", "a purpose")


def test_a_service_that_prints_something_else_is_said_so() -> None:
    with pytest.raises(HoldfastError, match=r"printed no base64 when asked to unwrap"):
        find_key("kms:echo hello there").unwrap(b"x", "a purpose")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("file:/nowhere/key", r"the key file /nowhere/key cannot be read: .*No such file"),
        ("file:/usr", r"cannot be read: .*Is a directory"),
        ("env:NO_SUCH_VARIABLE", "variable of env:NO_SUCH_VARIABLE is not set"),
        ("command:echo nothing", "is no key: a key is 32 bytes in base64 or hexadecimal, as 'holdfast key new' makes"),
        ("command:/no/such/program", "cannot be started"),
        ("command:'unclosed", "cannot be read: No closing quotation"),
        ("vault:secret/shop", "'vault:…', which is no address of one: write file:/path, env:VARIABLE"),
        ("file:", "which is no address of one"),
        ("command:", "which is no address of one"),
    ],
)
def test_a_key_that_is_not_there_is_said_so(address: str, said: str) -> None:
    with pytest.raises(HoldfastError, match=said):
        find_key(address)


def test_the_key_itself_in_place_of_its_address_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as refused:
        find_key(TEXT)
    assert TEXT[:8] not in str(refused.value)


@pytest.mark.parametrize("text", ["", "short", TEXT[:-4], TEXT + "AAAA", SECRET.hex()[:-2], "ключ"])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UsageError, match="it is no key") as refused:
        parse_key(text, "it")
    assert not text or text not in str(refused.value)
