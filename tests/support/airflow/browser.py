"""A real browser for tests: the headless Chromium of scripts/setup_browser.sh, driven by Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright

from bench.support.missing import MissingError

FOLDER = Path(__file__).parents[3] / ".work" / "browser"

_NOT_OURS = ("allow-scripts and allow-same-origin",)
"""What the browser says of Airflow's own frame around pages of plugins."""


@dataclass
class Watched:
    """What went wrong on a page: errors of scripts and of the console, dialogs, answers with a status of an error."""

    problems: list[str] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)

    def watch(self, page: Page) -> Page:
        """Collect what goes wrong on a page from now on."""
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._dismiss)
        page.on("console", lambda said: self._note(said.type, said.text))
        page.on("response", lambda answer: self.answers.append((answer.status, answer.url)))
        return page

    def _dismiss(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(words in text for words in _NOT_OURS):
            self.problems.append(f"{kind}: {text}")


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser; what it needs beside the system's C library is in its folder."""
    program = FOLDER / "chromium"
    if not program.exists():
        raise MissingError("browser", "the browser of the tests is missing: run scripts/setup_browser.sh")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "LD_LIBRARY_PATH": str(FOLDER / "lib"),
        "FONTCONFIG_FILE": str(FOLDER / "fonts.conf"),
    }
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program,
            env={**environment},
            # Tests run as root in containers, where the browser cannot make a sandbox of its own.
            args=["--no-sandbox", "--no-proxy-server"],
        )
        yield started
        started.close()


def new_context(browser: Browser, theme: str = "light") -> BrowserContext:
    """Return a browser session without cookies, of a screen's size."""
    return browser.new_context(
        viewport={"width": 1400, "height": 1000}, color_scheme="dark" if theme == "dark" else "light"
    )
