"""Forged bytes, names and values: what somebody may put into a store who can write there."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from holdfast.archive.format.checksum import add_checksum

RAW = (
    "null", "true", "-1", "0", "1", "1.5", "9223372036854775808", "1" + "0" * 400, "7" * 5000, "1e999", "NaN",
    "-Infinity", "[]", "{}", "[" * 3000 + "]" * 3000, '{"a":' * 1500 + "1" + "}" * 1500, '"\\ud800"',
)  # fmt: skip
"""JSON values as they are written, also such as JSON does not have."""

DATES = (
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-03-01T00:00:00", "2026-03-01",
    "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
)  # fmt: skip
POSITIONS = (
    "0/0", "FFFFFFFF/FFFFFFFF", "100000000/0", "-1/0", "1/", "/", "1/2/3", "x/y", "\u0663/0", "0/" + "F" * 5000,
)  # fmt: skip
PATHS = (
    "../outside/canary", "/etc/passwd", "data/../../outside/canary", "data/", "/", "..", "data//x",
    "data/x#y", "data/x#-1",
    "data/x#" + "9" * 5000, "archive.json", "locks/report", "data/" + "x" * 2000, "a\nb",
)  # fmt: skip
DIGESTS = ("0:0", "-1:-1", "99999999999999999999:0", ":", "x:y", "1:" + "9" * 5000, "\u0663:1", "5:")
WORDS = ("", "x", "x" * 100_000, "a\0b", "a\nb", "\u0663", "latest", "1" * 5000, "1e9", "\u202e", "'; --", "%s", "{0}")
"""Words for the place of a time, a position in a log, a path, a digest or a name."""

_KINDS = {
    re.compile(r"\d{4}-\d\d-\d\d.*"): DATES,
    re.compile(r"[0-9A-F]+/[0-9A-F]+"): POSITIONS,
    re.compile(r"\d+:[0-9a-f]+"): DIGESTS,
    re.compile(r".*/.*"): PATHS,
}

STEMS = (
    "0", "-1", "00000000000000000000", "00000000000000000002", "00000000001000000000", "99999999999999999999", "9" * 40,
    "9" * 200, "1e9", "0x10", "\u0663" * 20, "+0000000000000000001", "0000000000000000001 ", "000001", "999999999",
    "..x", "a\nb",
    "\u202ex",
    "caf\u00e9", "INTENT.WRIT.", "READ.", "WRIT.x", "DEAD.", "DEAD.", "WRIT." + "0" * 32, "x" * 240,
    ".holdfast-tmp-x", "#1",
)  # fmt: skip
"""Names without their ends."""

ENDS = (".json", ".parquet", "", ".json.bak", ".JSON", ".pack", ".dump", ".tmp", "#12")

_PLACE = "holdfast-forged-value"

Path = tuple[str | int, ...]


def nodes(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield where the values of a document are."""
    if at:
        yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in pairs:
        yield from nodes(inner, (*at, name))


def document(body: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Return what was done to a JSON document, and what it is now: mostly with a checksum that is right."""
    found = json.loads(body)
    sealed = isinstance(found, dict) and found.pop("checksum", None) is not None
    places = list(nodes(found))
    if not places:
        return "an empty document", body
    at = draw.choice(places)
    *above, last = at
    holder = found
    for name in above:
        holder = holder[name]
    said, written = _changed(holder, last, places, found, draw)
    text = json.dumps(found, indent=1).replace(f'"{_PLACE}"', written)
    whole = text.encode()
    if sealed and draw.random() < 0.9:
        whole = add_checksum(whole)
    return f"{'.'.join(map(str, at))}: {said}", whole


def values_like(before: Any) -> list[str]:
    """Return what may be written for a value: all that is strange, and what looks like it."""
    kinds = [words for form, words in _KINDS.items() if isinstance(before, str) and form.fullmatch(before)]
    words = kinds[0] if kinds else WORDS if isinstance(before, str) or before is None else ()
    is_number = isinstance(before, int) and not isinstance(before, bool)
    numbers = [str(before + each) for each in (-1, 1, 10**6, -(10**6), 10**12)] if is_number else []
    return [*RAW, *map(json.dumps, words), *numbers]


def with_value(body: bytes, at: Path, written: str) -> bytes:
    """Return a document with something else at a place, and with a checksum that is right where it had one."""
    found = json.loads(body)
    sealed = found.pop("checksum", None) is not None
    *above, last = at
    holder = found
    for name in above:
        holder = holder[name]
    holder[last] = _PLACE
    whole = json.dumps(found, indent=1).replace(f'"{_PLACE}"', written).encode()
    return add_checksum(whole) if sealed else whole


def _changed(holder: Any, name: str | int, places: list[Path], whole: Any, draw: random.Random) -> tuple[str, str]:
    """Change a value in its holder; returns what was done, and what is to be written for it."""
    before = holder[name]
    way = draw.choice(("taken out", "raw", "text", "text", "text", "number", "another's", "twice"))
    if way == "taken out":
        del holder[name]
        return way, ""
    another = _like(before, places, whole, draw)
    holder[name] = _PLACE
    if way == "twice" and isinstance(holder, dict):
        other = draw.choice(RAW)
        return f"twice, first {other[:20]}", f"{other}, {json.dumps(name)}: {json.dumps(before)}"
    if way == "number" and isinstance(before, int):
        number = before + draw.choice((-1, 1, 10**6, -(10**6), 10**12))
        return f"{before} became {number}", str(number)
    if way == "another's":
        return f"became {json.dumps(another)[:60]}", json.dumps(another)
    written = json.dumps(_text_like(before, draw)) if way == "text" else draw.choice(RAW)
    return f"became {written[:60]}", written


def _like(before: Any, places: list[Path], whole: Any, draw: random.Random) -> Any:
    """Return another value of the document, of the same type where one is found soon."""
    value = before
    for _ in range(20):
        value = whole
        for name in draw.choice(places):
            value = value[name]
        if type(value) is type(before) and value != before:
            break
    return value


def _text_like(before: Any, draw: random.Random) -> str:
    """Return words for the place of others: mostly such as could stand there."""
    kinds = [words for form, words in _KINDS.items() if isinstance(before, str) and form.fullmatch(before)]
    return draw.choice(kinds[0] if kinds and draw.random() < 0.8 else WORDS)


def text(body: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Return what was done to any bytes, and what they are now."""
    at = draw.randrange(len(body) + 1)
    ways = {
        "emptied": b"",
        f"cut off at {at}": body[:at],
        f"a megabyte of zeros at {at}": body[:at] + bytes(1 << 20) + body[at:],
        f"a byte at {at} flipped": body[:at] + bytes(each ^ 0x55 for each in body[at : at + 1]) + body[at + 1 :],
        "twice": body + body,
        "spaces before it": b" " * 100_000 + body,
        "not UTF-8": b"\xff\xfe" + body,
        "nothing but brackets": b"[" * 200_000,
        "a number": b"1" * 100_000,
    }
    said = draw.choice(sorted(ways))
    return said, ways[said]


def name_beside(name: str, draw: random.Random) -> str:
    """Return a forged name for an object that is to lie beside another one."""
    stem, dot, end = name.rpartition(".")
    numbers = re.sub(r"\d+", lambda found: draw.choice(STEMS[:8])[: 2 * len(found[0])], name)
    return draw.choice(
        (
            draw.choice(STEMS) + draw.choice(ENDS),
            draw.choice(STEMS) + dot + end,
            (stem or name) + draw.choice(ENDS),
            numbers,
            name.upper(),
            name + " ",
            "." + name,
        )
    )
