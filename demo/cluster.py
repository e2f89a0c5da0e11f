"""The story of the cluster that `make cluster-up` starts: what it goes on through, told as it happens.

Run it as `python -m demo.cluster`, or by `make cluster-demo`. It asks Airflow, and the container engine for accidents.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.airflow_api import AirflowApi
from demo.prove import Fingerprint, compare
from demo.screen import Line, Screen
from demo.story import DemoFailedError
from holdfast.common.errors import HoldfastError, UsageError, exit_code_of
from holdfast.common.words import human_size

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
SECRETS = ROOT / "cluster" / ".env"
MARK = "before the mistake"
_LIMIT_S = 600.0
_AT_WORK_S = 6.0

_MISTAKE = (
    "import os, psycopg; session = psycopg.connect(os.environ['AIRFLOW_CONN_SHOP_POSTGRES'], autocommit=True); "
    "session.execute('update shop.customer set balance = 0')"
)

_EMPTY = (
    "import os, psycopg; url = os.environ['AIRFLOW_CONN_SHOP_COPY']; "
    "session = psycopg.connect(url.rpartition('/')[0] + '/postgres', autocommit=True); "
    "session.execute('drop database if exists shop_copy with (force)'); session.execute('create database shop_copy')"
)

_FINGERPRINT = (
    "import base64, os, pickle, sys; from demo.prove import fingerprint; "
    "print(base64.b64encode(pickle.dumps(fingerprint(os.environ[sys.argv[1]]))).decode())"
)


class ClusterStory:
    """The steps, in order; `lines` is what was proved so far."""

    def __init__(self, screen: Screen, api: AirflowApi) -> None:
        self.screen = screen
        self.api = api
        self.lines: list[Line] = []
        self._mark = f"{MARK} {time.time():.0f}"
        self._last = ""

    def play(self) -> None:
        """Tell it from its beginning to its end."""
        self.back_up_through("a full backup, a Spark worker killed in the middle", "full", self._kill_a_worker)
        self.back_up_through("a backup of changes, the scheduler restarted in the middle", "changes", self._restart)
        with self.screen.step("Restart the S3 server, and the next backup"):
            self._compose("restart", "s3")
        self.back_up_through("a backup of changes after the S3 server was restarted", "changes", lambda: None)
        marked = self.mark_and_make_a_mistake()
        self.maintain()
        self.lose_a_replica()
        self.restore(marked)
        self.drill()

    def back_up_through(self, what: str, kind: str, accident: Callable[[], None]) -> None:
        """Back up through Airflow, with an accident once the job is at work."""
        with self.screen.step(f"Through Airflow: {what}") as show:
            began = time.monotonic()
            self._run("backup", {"kind": kind}, show, accident)
            seconds = time.monotonic() - began
        done = self.api.xcom("backup_shop", self._last, "backup_shop_db")
        quorum = done["quorum"]
        held = len(quorum["replicas"]) >= quorum["size"] == 2
        size, places = human_size(done["bytes"]), " and ".join(quorum["replicas"])
        figures = f"{done['rows']:,} rows, {size}, in {places}, {seconds:.0f} s"
        self.lines.append(Line(what, held, figures))

    def mark_and_make_a_mistake(self) -> Fingerprint:
        """Mark a moment at which the load pauses, make a mistake, and back up; return what the shop held."""
        with self.screen.step(f"Mark the moment {MARK!r}, and set every balance to 0"):
            self._compose("pause", "load")
            try:
                held = self._fingerprint("AIRFLOW_CONN_SHOP_POSTGRES")
                self._holdfast("mark", "shop", self._mark)
                self._python(_MISTAKE)
            finally:
                self._compose("unpause", "load")
        self.back_up_through("a backup of changes behind the mistake", "changes", lambda: None)
        return held

    def maintain(self) -> None:
        """Compact, truncate and verify, through Airflow."""
        for operation in ("compaction", "truncation", "archive_verification"):
            with self.screen.step(f"Through Airflow: {operation.replace('_', ' ')}") as show:
                began = time.monotonic()
                self._run(operation, {}, show)
            self.lines.append(Line(operation.replace("_", " "), True, f"{time.monotonic() - began:.0f} s"))

    def lose_a_replica(self) -> None:
        """Empty a replica's bucket, make it anew as the runbook says, and compare it with another."""
        with self.screen.step("Empty the bucket of replica far, make it anew, and sync through Airflow") as show:
            self._compose("exec", "-T", "s3", "sh", "-c", "rm -rf /data/far/shop")
            began = time.monotonic()
            self._holdfast("replica", "remove", "far", "--force")
            self._holdfast("replica", "add", "far", "s3://far/shop")
            self._run("replica_sync", {}, show)
            seconds = time.monotonic() - began
            done = json.loads(self._holdfast("verify", "s3://far/shop", "--deep", "--json"))
            points = [
                json.loads(self._holdfast("points", f"s3://{name}/shop", "--json"))["sources"]
                for name in ("near", "far")
            ]
        held = not done["damage"] and points[0] == points[1]
        figures = f"{done['files']} files read and compared, {seconds:.0f} s"
        self.lines.append(Line("the emptied replica has all restore points again", held, figures))

    def restore(self, held: Fingerprint) -> None:
        """Restore to the mark through Airflow, into the other server, and compare."""
        with self.screen.step(f"Restore {MARK!r} into the target through Airflow") as show:
            self._python(_EMPTY)
            began = time.monotonic()
            self._run("restore", {"at": f"mark:{self._mark}", "target_connection": "shop_copy", "dry_run": False}, show)
            seconds = time.monotonic() - began
            there = self._fingerprint("AIRFLOW_CONN_SHOP_COPY")
            differences = compare(held, there)
        for difference in differences[:20]:
            self.screen.say(f"   differs: {difference}")
        figures = f"{held.rows:,} rows in {len(held.tables)} tables and materialised views, {seconds:.0f} s"
        self.lines.append(
            Line("restore to the mark: rows, contents, sequences and schema equal", not differences, figures)
        )

    def drill(self) -> None:
        """Prove a restore into a server that is thrown away."""
        with self.screen.step("Through Airflow: a restore drill") as show:
            began = time.monotonic()
            self._run("restore_drill", {}, show)
        self.lines.append(Line("restore drill", True, f"{time.monotonic() - began:.0f} s"))

    def _run(
        self,
        operation: str,
        conf: dict[str, Any],
        show: Callable[[str], None],
        accident: Callable[[], None] | None = None,
    ) -> None:
        """Trigger a DAG and follow it to its end.

        :param accident: happens once its task has been at work for some seconds.
        :raises DemoFailedError: the run failed; quotes its log.
        """
        dag_id = f"{operation}_shop"
        self.api.wait_for_dag(dag_id)
        self._last = self.api.trigger(dag_id, conf)
        began, deadline = None, time.monotonic() + _LIMIT_S
        while (state := self._state(dag_id)) not in ("success", "failed"):
            if time.monotonic() > deadline:
                raise DemoFailedError(f"{dag_id} did not end in {_LIMIT_S:.0f} s")
            if began is None and any(task.state == "running" for task in self.api.tasks(dag_id, self._last)):
                began = time.monotonic()
            if accident is not None and began is not None and time.monotonic() - began > _AT_WORK_S:
                accident()
                accident = None
            show(f"Airflow: {state}")
            time.sleep(1)
        if state != "success":
            logs = [
                self.api.task_log(dag_id, self._last, task.task_id, task.try_number, map_index=task.map_index)
                for task in self.api.tasks(dag_id, self._last)
                if task.state == "failed"
            ]
            raise DemoFailedError(f"{dag_id} failed:\n" + "\n".join(logs)[-4000:])

    def _state(self, dag_id: str) -> str:
        return self.api.state(dag_id, self._last)

    def _kill_a_worker(self) -> None:
        self._compose("kill", "-s", "SIGKILL", "spark-worker-1")
        self._compose("start", "spark-worker-1")

    def _restart(self) -> None:
        self._compose("restart", "airflow-scheduler")

    def _fingerprint(self, variable: str) -> Fingerprint:
        found: Fingerprint = pickle.loads(base64.b64decode(self._python(_FINGERPRINT, variable)))  # noqa: S301 - our own
        return found

    def _python(self, code: str, *arguments: str) -> str:
        paths = ["env", "PYTHONPATH=/opt/demo"]
        return self._compose("exec", "-T", "airflow-triggerer", *paths, "python", "-c", code, *arguments)

    def _holdfast(self, *words: str) -> str:
        return self._compose("exec", "-T", "airflow-triggerer", "holdfast", *words)

    def _compose(self, *words: str) -> str:
        """Run Compose, and return what it says.

        :raises DemoFailedError: it failed.
        """
        done = subprocess.run(
            [ROOT / "scripts" / "cluster.sh", "compose", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise DemoFailedError(f"{' '.join(words)[:200]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout


def main() -> int:
    """Tell the story, and turn every failure into one sentence."""
    screen = Screen()
    try:
        if not SECRETS.exists():
            raise UsageError("there is no cluster: 'make cluster-up' starts one")
        secrets = dict(line.split("=", 1) for line in SECRETS.read_text().splitlines())
        url = f"http://127.0.0.1:{os.environ.get('AIRFLOW_PORT') or 8080}"
        api = AirflowApi(url=url, username="admin", password=secrets["AIRFLOW_ADMIN_PASSWORD"])
        if api.health() is None:
            raise UsageError(f"nobody answers at {url}: 'make cluster-up' starts the cluster")
        api.log_in()
        story = ClusterStory(screen, api)
        story.play()
        where = [("Airflow UI", f"{url}  log in as admin with AIRFLOW_ADMIN_PASSWORD of cluster/.env")]
        where += [("The Holdfast page", f"{url}/plugin/holdfast"), ("Stop it with", "make cluster-down")]
        return 0 if screen.report(story.lines, where) else 1
    except KeyboardInterrupt:
        screen.say("stopped; the cluster goes on")
        return 130
    except HoldfastError as error:
        screen.say(f"cluster: {error}")
        return exit_code_of(error)


if __name__ == "__main__":
    sys.exit(main())
