"""Pages in a real browser, and what goes wrong on them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect

from bench.support.browser import FOLDER

expect.set_options(timeout=30_000)

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


def new_context(browser: Browser, theme: str = "light") -> BrowserContext:
    """Return a browser session without cookies, of a screen's size."""
    return browser.new_context(
        viewport={"width": 1400, "height": 1000}, color_scheme="dark" if theme == "dark" else "light"
    )


def log_in(page: Page, url: str, passwords: Mapping[str, str], user: str) -> None:
    """Log in by Airflow's own form."""
    page.goto(f"{url}/auth/login/")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(passwords[user])
    page.get_by_role("button", name=re.compile("sign in|log in", re.I)).click()
    page.wait_for_url(re.compile(r"^(?!.*/auth/login).*$"))


def pictures() -> Path:
    """Return the folder for pictures of pages.

    Those of the documentation are made with HOLDFAST_PICTURES=docs/images.
    """
    folder = Path(os.environ.get("HOLDFAST_PICTURES") or FOLDER.parent / "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
