"""Runs one operation to its end and records it, whatever becomes of who started it.

    python -m soak.runner FOLDER OPERATION-ID

What to run is in FOLDER/orders/OPERATION-ID.json. A restore that ends well is followed by a look into the target.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from soak.journal import Journal
from soak.lanes import Lane, turns
from soak.operations import Operation

HUNG_S = 1500.0
"""No operation may take longer, whatever goes wrong: a quorum and its end wait for thirteen minutes."""

PROGRAM = Path(sys.executable).with_name("holdfast")


class Runner:
    """Runs one operation.

    :param settings: `environment` of operations, `target` (libpq's variables of its server), `seed`.
    """

    def __init__(self, folder: Path, identity: str, operation: Operation, settings: dict[str, Any]) -> None:
        self._folder = folder
        self._id = identity
        self._operation = operation
        self._settings = settings
        self._journal = Journal(folder / "journal", f"operation-{identity}")
        self._database = f"restored_{identity.replace('-', '_')}"

    def run(self) -> None:
        """Run it, look at what a restore has made, and tidy up."""
        restores = "{target}" in self._operation.words
        if restores:
            self._in_target(f"create database {self._database}")
        code = self._run_command()
        if restores:
            if code == 0:
                self._look()
            self._in_target(f"drop database if exists {self._database} with (force)")

    def _run_command(self) -> int:
        logs = self._folder / "logs"
        target = self._settings["target"]
        url = f"postgresql://{target['PGUSER']}@127.0.0.1:{target['PGPORT']}/{self._database}"
        words = [url if word == "{target}" else word for word in self._operation.words]
        password = target["PGPASSWORD"] if url in words else self._settings["source_password"]
        environment = {**self._settings["environment"], "PGPASSWORD": password, **self._operation.variables}
        with (logs / f"{self._id}.out").open("wb") as out, (logs / f"{self._id}.err").open("wb") as err:
            command = subprocess.Popen(
                [PROGRAM, *words],
                env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        self._journal.write("begin", id=self._id, pid=command.pid, **self._operation.as_json())
        try:
            code = command.wait(HUNG_S)
        except subprocess.TimeoutExpired:
            self._journal.write("hung", id=self._id, kind=self._operation.kind)
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)
            code = command.wait()
        ended = time.time()
        self._journal.write(
            "end", at=ended, id=self._id, kind=self._operation.kind, source=self._operation.source, code=code,
            pid=command.pid, result=self._result(), words=self._last_words(),
        )  # fmt: skip
        return code

    def _result(self) -> dict[str, Any]:
        """Return what the command printed, if that is one JSON object."""
        with suppress(ValueError):
            found = json.loads((self._folder / "logs" / f"{self._id}.out").read_text())
            if isinstance(found, dict):
                return found
        return {}

    def _last_words(self) -> str:
        return (self._folder / "logs" / f"{self._id}.err").read_text(errors="replace").strip()[-600:]

    def _look(self) -> None:
        """Record the turns of the lanes in the target, and whether each table is what it must be after its turn."""
        operation = self._operation
        with psycopg.connect(self._conninfo(self._database)) as connection:
            reached = turns(connection)
            unequal = {}
            for number, turn in sorted(reached.items()):
                lane = Lane(self._settings["seed"], operation.source, number)
                expected, found = lane.expected(turn), lane.found(connection)
                if expected != found:
                    unequal[str(number)] = {"turn": turn, "expected": asdict(expected), "found": asdict(found)}
        self._journal.write(
            "restored", id=self._id, source=operation.source, turns=reached, unequal=unequal,
            asked=operation.moment, point=operation.point,
        )  # fmt: skip

    def _in_target(self, statement: str) -> None:
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _conninfo(self, database: str) -> str:
        target = self._settings["target"]
        return make_conninfo(
            "", host="127.0.0.1", port=target["PGPORT"], user=target["PGUSER"], password=target["PGPASSWORD"],
            dbname=database,
        )  # fmt: skip


def main(folder: str, identity: str) -> None:
    """Run the operation of an order."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it outlives who started it; its command ends by itself
    given = Path(folder)
    operation = Operation.from_json(json.loads((given / "orders" / f"{identity}.json").read_text()))
    settings = json.loads((given / "settings.json").read_text())
    Runner(given, identity, operation, settings).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
