"""Cleanup after work that never hides the work's own error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def clean_up(first: BaseException | None, *steps: Callable[[], object]) -> None:
    """Run all steps in order, even if some fail.

    :param first: the error of the work, which its caller raises and which gets notes of errors here; without one, the
        first error of a step is raised in the end.
    """
    failed = first
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - every error comes after the first
            if failed is None:
                failed = error
            else:
                failed.add_note(f"then, while tidying up: {type(error).__name__}: {error}")
    if first is None and failed is not None:
        raise failed


@contextmanager
def cleanup(*steps: Callable[[], object]) -> Iterator[None]:
    """Run the steps after the block, as `clean_up` does."""
    try:
        yield
    except BaseException as error:
        clean_up(error, *steps)
        raise
    clean_up(None, *steps)
