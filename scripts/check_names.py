"""Check that names and words of the product get no worse: each number below may only go down.

A *door* is a module whose public names share no word with its file. A word is counted in product code, in names,
comments and sentences alike. Usage: ``python scripts/check_names.py``; lower a number here once the count is lower.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("holdfast", "locking", "plugins/holdfast_airflow", "sparkjobs")

DOORS = 54
WORDS = {
    "told": 26,
    "wish": 0,
    "anew": 23,
    "nobody|somebody|whoever|whatever": 92,
}


def modules() -> Iterator[Path]:
    for top in PRODUCT:
        yield from sorted((ROOT / top).rglob("*.py"))


def stems(name: str) -> set[str]:
    """Return the beginnings of a name's words: `make_block` and `BlockMaker` share two."""
    return {word.lower()[:5] for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def is_door(module: Path) -> bool:
    if module.name.startswith("__") or {"migrations", "cli"} & set(module.parts):
        return False
    definitions = [
        node for node in ast.parse(module.read_text()).body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    public = [node.name for node in definitions if not node.name.startswith("_")]
    return bool(public) and not stems(module.stem) & {stem for name in public for stem in stems(name)}


def main() -> int:
    """Print what got worse; return the exit code."""
    doors = [str(module.relative_to(ROOT)) for module in modules() if is_door(module)]
    worse = [f"{len(doors)} modules are not named as what is in them, {DOORS} are allowed: {', '.join(doors)}"]
    worse = worse if len(doors) > DOORS else []
    text = "\n".join(module.read_text() for module in modules())
    for word, allowed in WORDS.items():
        count = len(re.findall(rf"\b(?:{word})\b", text, re.IGNORECASE))
        if count > allowed:
            worse.append(f"'{word}' is there {count} times, {allowed} are allowed: say it otherwise")
    print(*worse, sep="\n", file=sys.stderr)
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
