"""Programs that could not be built here. Where setting up left one out, it wrote why to ``.work/missing``."""

from __future__ import annotations

from pathlib import Path

NOTES = Path(__file__).resolve().parents[2] / ".work" / "missing"


class MissingError(FileNotFoundError):
    """A program that is not there.

    :param name: of the note on it
    :param otherwise: the sentence where there is no note: what is missing, and what to do
    """

    def __init__(self, name: str, otherwise: str) -> None:
        note = NOTES / name
        self.is_left_out = note.exists()
        super().__init__(note.read_text().strip() if self.is_left_out else otherwise)
