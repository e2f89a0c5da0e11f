"""A small steady load on the shop: some transactions a second, until it is ended."""

from __future__ import annotations

import os
import time

import psycopg

from demo import shop

_PAUSE_S = 2.0
_ROWS = 50


def main() -> None:
    """Write to the database that the variable SHOP names, and go on when it was away."""
    while True:
        try:
            shop.write_more(os.environ["SHOP"], rows=_ROWS)
        except psycopg.OperationalError as error:
            print(f"the shop is away: {error}", flush=True)
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
