"""`make demo`: a sample database backed up and brought back through Airflow, Spark and locks."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from demo import running, shop
from demo.airflow import AirflowStandalone
from demo.screen import Screen
from demo.story import ARCHIVE, CONNECTION, DATABASE, Story, configure
from holdfast.archive import Archive
from holdfast.archive.format.last_seen import forget_seen, place_of
from holdfast.common.errors import HoldfastError, exit_code_of
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.operations.job_process import DEFAULT_MASTER, check_java
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import open_store
from locking import LockError
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

ROOT = Path(__file__).resolve().parent.parent


def start(
    stack: ExitStack,
    screen: Screen,
    server: PostgresServer,
    folder: Path,
    scale: float,
    *,
    port: int | None = None,
    dags: Path | None = None,
    archives: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
) -> Story:
    """Start everything in `folder`, on a server that is not started yet; what was started ends with the stack.

    :param dags: folder of more DAG files.
    :param archives: more of them for archives.yaml, beside the story's.
    :param env: more environment variables for Airflow.
    """
    check_java()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = folder / "archive"
    forget_seen(place_of(open_store(str(archive))))  # that of an earlier demo, which was meant to go
    stack.enter_context(server)
    with screen.step("Start PostgreSQL and Airflow, create the shop database and an archive") as show:
        airflow = AirflowStandalone(
            home=folder / "airflow",
            dags=dags,
            plugins=ROOT / "plugins",
            port=port,
            env={
                "HOLDFAST_ARCHIVES": str(configure(folder, archive, server.url(DATABASE), archives or {})),
                f"AIRFLOW_CONN_{CONNECTION.upper()}": server.conninfo(DATABASE),
                # It is there to be seen: a database as small as this would be backed up without it.
                FORCED_VARIABLE: "spark",
                "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": DEFAULT_MASTER}),
                **(env or {}),
            },
            say=show,
        )
        airflow.start()
        stack.callback(airflow.stop)
        shop.create(server.conninfo(), DATABASE, scale)
        Archive.create(open_store(str(archive)), name=ARCHIVE)
        airflow.wait_until_healthy()
    return Story(screen, server, airflow, archive)


def tell(
    screen: Screen, server: PostgresServer, folder: Path, scale: float, *, keep: bool = False, port: int | None = None
) -> bool:
    """Run the whole demo in `folder`, on a server that is not started yet; returns whether everything held."""
    with ExitStack() as stack:
        story = start(stack, screen, server, folder, scale, port=port)
        story.play()
        airflow, archive = story.airflow, story.archive
        where = [
            ("Archive", f"{archive}  (try: .venv/bin/holdfast status {archive})"),
            ("Airflow's and Spark's logs", str(airflow.home / "logs")),
        ]
        if keep:
            running.leave(folder, airflow, server)
            stack.pop_all()
            where += [
                ("Airflow UI", f"{airflow.url}  log in as {airflow.username} with {airflow.password}"),
                ("The Holdfast page", f"{airflow.url}/plugin/holdfast"),
                ("Stop it with", "make demo-stop"),
            ]
        return screen.report(story.lines, where)


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Read the options, run, and turn every failure into one sentence."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".work" / "demo", help="emptied, then worked in")
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 is about 400,000 rows")
    parser.add_argument("--port", type=int, help="of the Airflow UI; default is a free one")
    parser.add_argument("--keep", action="store_true", default=bool(os.environ.get("KEEP")), help="leave it running")
    parser.add_argument("--stop", action="store_true", help="end what --keep left running")
    options = parser.parse_args()
    # Ctrl-C, too: a shell that starts this in the background has it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_on_signal)
    screen = Screen()
    try:
        running.stop(options.folder)
        if options.stop:
            return 0
        held = tell(screen, PostgresServer(), options.folder, options.scale, keep=options.keep, port=options.port)
        return 0 if held else 1
    except KeyboardInterrupt:
        screen.say("stopped; everything that was started has ended")
        return 130
    except (HoldfastError, LockError, StoreError) as error:
        screen.say(f"demo: {error}")
        return exit_code_of(error)


if __name__ == "__main__":
    sys.exit(main())
