"""A notifier that writes into a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from airflow.sdk import BaseNotifier, Context


class FileNotifier(BaseNotifier):
    """Adds a line to a file.

    :param path: of the file. (templated)
    :param text: of the line. (templated)
    """

    template_fields: Sequence[str] = ("path", "text")

    def __init__(self, *, path: str, text: str) -> None:
        super().__init__()
        self.path = path
        self.text = text

    def notify(self, context: Context) -> None:
        """Write the line."""
        with Path(self.path).open("a") as file:
            file.write(self.text + "\n")
