"""What the documentation names exists: pages, headings, paths, make targets, commands and their options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from holdfast.cli.commands import COMMANDS, load

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

# Top folders of this repository: a path that begins with one of them is ours, any other is somebody else's.
_FOLDERS = (
    "bench", "demo", "deploy", "docs", "holdfast", "locking", "monitoring", "plugins", "requirements",
    "scripts", "security", "sparkjobs", "tests",
)  # fmt: skip
_PATH = re.compile(rf"(?:{'|'.join(_FOLDERS)})/[\w./-]*")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The names that headings have as targets of links, as GitHub makes them."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands() -> dict[str, set[str]]:
    """Every command of `holdfast`, such as "backup" and "locks list", with its options."""
    return dict(options_of({name: load(name) for name in COMMANDS}))


def options_of(commands: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, set[str]]]:
    """The commands of a group and of the groups in it; `before` is what leads to the group."""
    for name, command in commands.items():
        yield before + name, {option for parameter in command.params for option in parameter.opts}
        if isinstance(command, TyperGroup):
            yield from options_of(command.commands, f"{before}{name} ")


def named_commands(page: Path) -> list[str]:
    """Everything on a page that begins with `holdfast ` where code stands: spans, and lines of blocks."""
    text = page.read_text()
    lines = [line.removeprefix("$ ") for block in _FENCE.findall(text) for line in block.splitlines()]
    return [words for words in [*_SPAN.findall(prose(page)), *lines] if re.match(r"holdfast [a-z]", words)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}, but there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_is_named_exists(page: Path) -> None:
    for span in _SPAN.findall(prose(page)):
        if _PATH.fullmatch(span):
            assert (ROOT / span).exists(), f"{page.name} names {span}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    blocks = [line for block in _FENCE.findall(text) for line in block.splitlines()]
    for words in [*_SPAN.findall(prose(page)), *blocks]:
        if found := re.match(r"make ([a-z-]+)", words):
            assert found[1] in targets, f"{page.name} names make {found[1]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_named_exists_with_its_options(page: Path) -> None:
    known = commands()
    for words in named_commands(page):
        said = words.split()[1:]
        name = next((" ".join(said[:count]) for count in (3, 2, 1) if " ".join(said[:count]) in known), said[0])
        assert name in known, f"{page.name} names holdfast {name}"
        has_more = any(each.startswith(f"{name} ") for each in known)
        after = [*said, ""][name.count(" ") + 1]
        assert not (has_more and after.isalpha() and after.islower()), f"{page.name}: no holdfast {name} {after}"
        for option in re.findall(r"(?<!\S)--[a-z-]+", words):
            assert option in known[name], f"{page.name}: holdfast {name} has no {option}"


def test_every_page_of_the_documentation_is_in_its_table_of_contents() -> None:
    contents = ROOT / "docs" / "README.md"
    linked = {(contents.parent / link).resolve() for link in _LINK.findall(contents.read_text())}
    assert {page for page in (ROOT / "docs").rglob("*.md") if page != contents} <= linked


def test_changelog_begins_with_the_version_that_is_built() -> None:
    from holdfast import __version__

    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] in (__version__, "Unreleased")
