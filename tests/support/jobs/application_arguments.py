"""Arguments of an application, read as the application reads them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar

from holdfast.operations.requests.base import Request

R = TypeVar("R", bound=Request)


def parse_request(kind: type[R], arguments: Sequence[str]) -> R:
    """Return the request in an application's arguments; other arguments are ignored."""
    parser = argparse.ArgumentParser(add_help=False)
    kind.add_to(parser)
    return kind.given(**vars(parser.parse_known_args(arguments)[0]))
