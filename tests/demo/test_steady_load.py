"""The load on the shop of the containers."""

from __future__ import annotations

import psycopg
import pytest

from demo import shop, steady_load


class _EndedError(Exception):
    """Ends what goes on for ever."""


def test_it_goes_on_when_the_shop_was_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    turns: list[str] = []

    def write(conninfo: str, *, rows: int) -> int:
        turns.append(conninfo)
        if len(turns) == 1:
            raise psycopg.OperationalError("connection refused")
        return rows

    def pause(seconds: float) -> None:
        if len(turns) == 3:
            raise _EndedError

    monkeypatch.setenv("SHOP", "host=source dbname=shop")
    monkeypatch.setattr(shop, "write_more", write)
    monkeypatch.setattr("demo.steady_load.time.sleep", pause)
    with pytest.raises(_EndedError):
        steady_load.main()
    assert turns == ["host=source dbname=shop"] * 3
    assert capsys.readouterr().out == "the shop is away: connection refused\n"
