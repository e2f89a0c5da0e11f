"""A real browser: the headless Chromium of scripts/setup_browser.sh, driven by Playwright."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from bench.support.missing import MissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[2] / ".work" / "browser"


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
