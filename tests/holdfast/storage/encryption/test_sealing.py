"""Sealed objects: what goes in comes out, in parts, too; whatever else is found."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.common.errors import DamagedError
from holdfast.storage.encryption.sealing import (
    HEADER_BYTES,
    MAGIC,
    DataKey,
    SealingWriter,
    Unsealer,
    content_size,
    key_id,
    seal,
    unseal,
)

KEY = DataKey(b"\1\2\3\4", bytes(range(32)))
SEGMENT = 256 << 10
CONTENT = SEGMENT - 16
SIZES = [0, 1, 100, CONTENT - 1, CONTENT, CONTENT + 1, 2 * CONTENT, 2 * CONTENT + 17, 3 * CONTENT]


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sealed_comes_back(size: int) -> None:
    content = os.urandom(size)
    sealed = seal(content, KEY, "data/a")
    assert unseal(sealed, KEY, "data/a") == content
    assert key_id(sealed, "data/a") == KEY.id
    assert content_size(len(sealed)) == size


def test_nothing_of_the_content_is_in_what_was_sealed_and_no_two_are_alike() -> None:
    content = b"a secret of sixteen"
    sealed = {seal(content, KEY, "data/a") for _ in range(10)}
    assert len(sealed) == 10
    assert not any(content[:8] in each for each in sealed)


def test_no_other_size_is_taken_for_that_of_a_sealed_object() -> None:
    sizes = [*range(20), *range(CONTENT - 40, CONTENT + 40), *range(2 * CONTENT - 20, 2 * CONTENT + 20)]
    sealed = {len(seal(bytes(size), KEY, "x")): size for size in sizes}
    near = [*range(HEADER_BYTES + 36), *range(HEADER_BYTES + SEGMENT - 36, HEADER_BYTES + SEGMENT + 36)]
    for size in near:
        assert content_size(size) == sealed.get(size, -1)


@given(writes=st.lists(st.integers(0, 3 * CONTENT // 2), max_size=6))
def test_it_does_not_matter_in_which_pieces_content_is_written(writes: list[int]) -> None:
    content = os.urandom(sum(writes))
    sealed: list[bytes] = []
    with SealingWriter(sealed.append, KEY, "data/a") as file:
        at = 0
        for size in writes:
            assert file.write(memoryview(content)[at : at + size]) == size
            at += size
            assert file.tell() == at
        file.finish()
    assert unseal(b"".join(sealed), KEY, "data/a") == content


@given(size=st.sampled_from(SIZES[1:]), data=st.data())
def test_any_part_can_be_read_alone(size: int, data: st.DataObject) -> None:
    content = os.urandom(size)
    sealed = seal(content, KEY, "data/a")
    asked: list[int] = []

    def fetch(offset: int, length: int) -> bytes:
        asked.append(length)
        assert 0 < length <= len(sealed) - offset
        return sealed[offset : offset + length]

    unsealer = Unsealer(sealed[:HEADER_BYTES], len(sealed), KEY, "data/a", fetch)
    assert unsealer.size == size
    for _ in range(3):
        begin = data.draw(st.integers(0, size - 1))
        length = data.draw(st.integers(1, size - begin))
        asked.clear()
        assert unsealer.fetch(begin, length) == content[begin : begin + length]
        assert sum(asked) <= length + 2 * SEGMENT


def positions(sealed: bytes) -> list[int]:
    """Each byte of the header and around each border of segments, and some in between."""
    borders = [HEADER_BYTES + number * SEGMENT for number in range(3)]
    near = {border + by for border in [*borders, len(sealed)] for by in range(-20, 20)}
    return sorted(at for at in {*range(HEADER_BYTES), *near, *range(0, len(sealed), 4999)} if 0 <= at < len(sealed))


def test_a_changed_bit_is_found_wherever_it_is() -> None:
    sealed = seal(os.urandom(CONTENT + 1000), KEY, "data/a")
    for at in positions(sealed):
        changed = bytearray(sealed)
        changed[at] ^= 1 << (at % 8)
        try:
            found = key_id(bytes(changed), "data/a") == KEY.id
        except DamagedError:
            found = False
        if found:  # another id is no key of the archive
            with pytest.raises(DamagedError, match="data/a is damaged"):
                unseal(bytes(changed), KEY, "data/a")


def test_a_cut_is_found_wherever_it_is() -> None:
    sealed = seal(os.urandom(2 * CONTENT), KEY, "data/a")
    cuts = [at for at in positions(sealed) if at >= HEADER_BYTES]
    for at in cuts:
        with pytest.raises(DamagedError, match="data/a is damaged"):
            unseal(sealed[:at], KEY, "data/a")
    with pytest.raises(DamagedError, match="data/a is damaged"):
        unseal(sealed + sealed[-20:], KEY, "data/a")


def test_segments_in_another_order_or_left_out_are_found() -> None:
    sealed = seal(os.urandom(3 * CONTENT), KEY, "data/a")
    header = sealed[:HEADER_BYTES]
    first, second, third = (sealed[HEADER_BYTES + n * SEGMENT : HEADER_BYTES + (n + 1) * SEGMENT] for n in range(3))
    for order in ([second, first, third], [first, third], [first, second], [second, third], [first, first, third]):
        with pytest.raises(DamagedError):
            unseal(header + b"".join(order), KEY, "data/a")


def test_an_object_under_another_name_is_found() -> None:
    with pytest.raises(DamagedError, match="data/b is damaged"):
        unseal(seal(b"1", KEY, "data/a"), KEY, "data/b")


def test_another_key_opens_nothing() -> None:
    with pytest.raises(DamagedError):
        unseal(seal(b"1", KEY, "data/a"), DataKey(KEY.id, bytes(32)), "data/a")


@pytest.mark.parametrize("plain", [b"", MAGIC, b"PAR1" + bytes(100)])
def test_what_is_not_sealed_is_said_to_be_so(plain: bytes) -> None:
    with pytest.raises(DamagedError, match="is not encrypted, as all of this archive is"):
        key_id(plain, "data/a")


def test_bytes_that_were_sealed_by_the_first_release_that_could_are_opened() -> None:
    """The format itself, written by hand: HKDF's and AES-GCM's own implementations, and nothing of ours."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    salt, prefix = bytes(range(100, 132)), b"prefix!"
    cipher = AESGCM(HKDF(SHA256(), 32, salt, b"holdfast object\0data/a").derive(KEY.secret))
    first = cipher.encrypt(prefix + b"\0\0\0\0" + b"\0", b"a" * CONTENT, None)
    last = cipher.encrypt(prefix + b"\0\0\0\1" + b"\1", b"the end", None)
    sealed = b"HFS1" + KEY.id + salt + prefix + first + last
    assert unseal(sealed, KEY, "data/a") == b"a" * CONTENT + b"the end"


def test_a_data_key_is_not_shown() -> None:
    assert "secret" not in repr(KEY)
