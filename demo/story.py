"""The demo's story: backups under writes, a database lost, three moments brought back and compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from demo import shop
from demo.prove import Fingerprint, compare, content_of, fingerprint
from demo.screen import Line, Screen
from holdfast.archive.format.runs import RunRecord, read_last
from holdfast.common.errors import HoldfastError
from holdfast.common.words import human_size
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from demo.airflow import AirflowStandalone
    from holdfast.postgresql.connection.server import PostgresServer

DATABASE = "shop"
ARCHIVE = "shop"
SOURCE = "shop_db"
CONNECTION = "shop_postgres"
MARK = "before the mistake"
CONFIGURATION = "archives.yaml"
_DAG_TIMEOUT_S = 900.0
_ROWS_BETWEEN = 500
_HOLDFAST = str(Path(sys.prefix, "bin", "holdfast"))


class DemoFailedError(HoldfastError):
    """A step did not do what it should; the message says which and what Airflow says of it."""


@dataclass
class Moment:
    """A moment that is backed up, and what the database held then, by the database's own word.

    :param at: how it is asked for in a restore.
    """

    at: str
    summary: dict[str, Any]
    before: Fingerprint
    written_meanwhile: int
    seconds: float

    @property
    def rate(self) -> str:
        """Return rows and bytes a second, over the whole DAG run."""
        return f"{self.summary['rows']:,} rows, {human_size(self.summary['bytes'])}, {self.seconds:.1f} s"


@dataclass
class Story:
    """The steps, in order; `lines` is what was proved so far."""

    screen: Screen
    server: PostgresServer
    airflow: AirflowStandalone
    archive: Path
    lines: list[Line] = field(default_factory=list)
    _last_run: str = ""

    def play(self, *, every_moment: bool = True) -> None:
        """Tell it from its beginning to its end.

        :param every_moment: else only the moment between is restored, for which the second backup and changes are read.
        """
        first, second = self.back_up_twice()
        self.refuse_a_gap(first, second)
        between = self.back_up_changes()
        self.look_back()
        for moment in (first, second, between) if every_moment else (between,):
            self.lose_and_restore(moment)
        self.bring_a_table_back(between)

    def back_up_twice(self) -> tuple[Moment, Moment]:
        """Back up, while rows are written; back up again, and follow the changes from there on."""
        before = fingerprint(self.server.conninfo(DATABASE))
        first = self._back_up("Back up through Airflow and Spark, while the shop goes on selling", before, writing=True)
        # Tables without a key are followed by their owner's consent.
        self._holdfast("source", "setup", SOURCE, "--changes", "--identity-full", "shop.*", "--run")
        between = fingerprint(self.server.conninfo(DATABASE))
        second = self._back_up("Back up again, and follow the changes from there on", between, kind="changes")
        changed = bool(compare(first.before, second.before))
        self.lines.append(
            Line("the database changed between the backups", changed, f"{first.written_meanwhile:,} writes")
        )
        return first, second

    def back_up_changes(self) -> Moment:
        """Write, note the time, mark it, make a mistake, and back up what has changed; return the moment between."""
        with self.screen.step(f"Sell, mark the moment as {MARK!r}, and set every balance to 0"):
            shop.write_more(self.server.conninfo(DATABASE), rows=_ROWS_BETWEEN)
            before = fingerprint(self.server.conninfo(DATABASE))
            with psycopg.connect(self.server.conninfo(DATABASE), autocommit=True) as connection:
                (at,) = connection.execute("select clock_timestamp()").fetchone() or (None,)
                self.screen.say(f"   {self._holdfast('mark', ARCHIVE, MARK).stdout.strip()}")
                connection.execute("update shop.customer set balance = 0")
        moment = self._back_up("Back up what has changed, through Airflow", before, kind="changes")
        moment.at = at.isoformat()
        return moment

    def look_back(self) -> None:
        """Query the customers' balances in the archive, at the mark and now."""
        counted = "select count(*) from shop.customer where balance <> 0"
        with self.screen.step(f"Query the archive at {MARK!r}, without restoring anything"):
            began = time.monotonic()
            found = [
                json.loads(self._holdfast("query", ARCHIVE, counted, "--at", at, "--json").stdout)["rows"][0][0]
                for at in (MARK, "latest")
            ]
            seconds = (time.monotonic() - began) / len(found)
        figures = f"{found[0]:,} customers with a balance, {found[1]:,} at the end, {seconds:.1f} s a query"
        self.lines.append(Line("query of the archive at the mark", found[0] > 0 == found[1], figures))

    def bring_a_table_back(self, moment: Moment) -> None:
        """Restore one table as it was at the mark beside what is there, and compare it."""
        with self.screen.step(f"Restore shop.customer as of {MARK!r} into another schema, beside what is there"):
            began = time.monotonic()
            chosen = ("--tables", "shop.customer", "--map", "shop=shop_before")
            self._holdfast("restore", ARCHIVE, "--to", self.server.url(DATABASE), "--at", MARK, *chosen)
            seconds = time.monotonic() - began
            wanted = moment.before.tables["shop.customer"]
            is_equal = content_of(self.server.conninfo(DATABASE), "shop_before", "customer") == wanted
        figures = f"{wanted.rows:,} rows, {seconds:.1f} s"
        self.lines.append(Line("one table as of the mark, beside what is there: equal", is_equal, figures))

    def _holdfast(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command.

        :raises DemoFailedError: it failed; quotes what it said.
        """
        environment = {
            **os.environ,
            "PGPASSWORD": self.server.password,
            "HOLDFAST_ARCHIVES": str(self.archive.parent / CONFIGURATION),
        }
        done = subprocess.run(
            [_HOLDFAST, *words], env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise DemoFailedError(f"holdfast {words[0]} failed: {done.stderr.strip()[-2000:]}")
        return done

    def _back_up(self, title: str, before: Fingerprint, *, kind: str = "full", writing: bool = False) -> Moment:
        stop = threading.Event()
        writer = _Writer(self.server.conninfo(DATABASE), stop)

        def on_progress(record: RunRecord) -> None:
            # The snapshot is taken: what is written from here on must not be in this backup.
            if writing and record.step in ("reading tables", "committing"):
                writer.start()

        with self.screen.step(title) as show:
            began = time.monotonic()
            try:
                self._run("backup", {"kind": kind}, show, on_progress)
            finally:
                stop.set()
                written = writer.finish()
            seconds = time.monotonic() - began
            summary = self.airflow.api.xcom(f"backup_{ARCHIVE}", self._last_run, f"backup_{SOURCE}")
        moment = Moment(f"commit:{summary['commit']}", summary, before, written, seconds)
        what = "backup of changes" if summary["kind"] == "changes" else "backup"
        self.lines.append(Line(f"{what}, commit {summary['commit']}", True, moment.rate))
        return moment

    def refuse_a_gap(self, first: Moment, second: Moment) -> None:
        """Ask for a time between the two backups, which full backups alone cannot give."""
        start, end = (datetime.fromisoformat(each.summary["restorable_to"]) for each in (first, second))
        middle = (start + (end - start) / 2).isoformat()
        with self.screen.step(f"Ask for {middle}, between the two backups"):
            target = self.server.url(DATABASE)
            done = subprocess.run(
                [_HOLDFAST, "restore", str(self.archive), "--to", target, "--at", middle],
                env={**os.environ, "PGPASSWORD": self.server.password},
                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            self.screen.say(f"   {done.stderr.strip()}")
        named = all(f"commit:{each.summary['commit']}" in done.stderr for each in (first, second))
        self.lines.append(
            Line("a time in the gap is refused", done.returncode == 5 and named, f"exit {done.returncode}")
        )

    def lose_and_restore(self, moment: Moment) -> None:
        """Drop the database, restore it to a backup's moment, and compare it with what it held then."""
        what = (
            moment.at.replace(":", " ")
            if moment.at.startswith("commit:")
            else f"a time between two writes, {moment.at}"
        )
        shop.drop(self.server.conninfo(), DATABASE)
        shop.create_empty(self.server.conninfo(), DATABASE)
        with self.screen.step(f"Drop the database and restore {what} through Airflow") as show:
            began = time.monotonic()
            self._run("restore", {"at": moment.at, "target_connection": CONNECTION, "dry_run": False}, show)
            seconds = time.monotonic() - began
            show("comparing with what the database said of itself at the backup")
            differences = compare(moment.before, fingerprint(self.server.conninfo(DATABASE)))
        for difference in differences[:20]:
            self.screen.say(f"   differs: {difference}")
        tables = len(moment.before.tables)
        self.lines.append(
            Line(
                f"restore of {what.partition(',')[0]}: rows, contents, sequences and schema equal",
                not differences,
                f"{moment.before.rows:,} rows in {tables} tables and materialised views, {seconds:.1f} s",
            )
        )

    def _run(
        self,
        operation: str,
        conf: dict[str, Any],
        show: Callable[[str], None],
        on_progress: Callable[[RunRecord], None] = lambda record: None,
    ) -> None:
        """Trigger a DAG by Airflow's REST API and follow it to its end.

        :raises DemoFailedError: the run failed; quotes its log.
        """
        api = self.airflow.api
        dag_id = f"{operation}_{ARCHIVE}"
        api.wait_for_dag(dag_id)
        follower = _Follower(str(self.archive), operation)
        self._last_run = api.trigger(dag_id, conf)
        deadline = time.monotonic() + _DAG_TIMEOUT_S
        while (state := api.state(dag_id, self._last_run)) not in ("success", "failed"):
            if time.monotonic() > deadline:
                raise DemoFailedError(f"{dag_id} did not end in {_DAG_TIMEOUT_S:.0f} s")
            record = follower.look()
            show(record.describe() if record else f"Airflow: {state}")
            if record:
                on_progress(record)
            time.sleep(0.3)
        if state != "success":
            logs = [
                api.task_log(dag_id, self._last_run, task.task_id, task.try_number)
                for task in api.tasks(dag_id, self._last_run)
                if task.state == "failed"
            ]
            raise DemoFailedError(f"{dag_id} failed:\n" + "\n".join(logs)[-4000:])


class _Follower:
    """Finds the run of the job that was started next, and reads its newest record."""

    def __init__(self, archive: str, operation: str) -> None:
        self._store = open_store(archive)
        self._prefix = f"runs/{operation}"
        self._known = self._runs()

    def _runs(self) -> set[str]:
        return {found.key.split("/")[1] for found in self._store.list(self._prefix).objects}

    def look(self) -> RunRecord | None:
        """Return where the job is, or None before it has said anything."""
        started = sorted(self._runs() - self._known)
        return read_last(self._store, started[-1]) if started else None


class _Writer:
    """Writes to the shop from a thread until told to stop."""

    def __init__(self, conninfo: str, stop: threading.Event) -> None:
        self._written = 0
        self._thread = threading.Thread(target=self._write, args=(conninfo, stop), daemon=True)

    def _write(self, conninfo: str, stop: threading.Event) -> None:
        self._written = shop.write_more(conninfo, stop=stop)

    def start(self) -> None:
        """Begin, once."""
        if self._thread.ident is None:
            self._thread.start()

    def finish(self) -> int:
        """Wait for the last write and return how many rows there were."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._written


def configure(folder: Path, archive: Path, url: str, more: Mapping[str, object]) -> Path:
    """Write the demo's archives.yaml and return it.

    :param url: of the database, for the command; without a password.
    :param more: archives beside the story's.
    """
    path = folder / CONFIGURATION
    sources = {SOURCE: {"connection": CONNECTION, "url": url, "tables": ["*.*"], "objectives": {"rpo": "1h"}}}
    # JSON is YAML, too.
    archives = {ARCHIVE: {"url": str(archive), "sources": sources}, **more}
    path.write_text(json.dumps({"archives": archives}, indent=2) + "\n")
    return path
