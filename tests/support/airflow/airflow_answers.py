"""A stand-in for Airflow's REST API: answers what a test says, and notes what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PREFIX = "/api/v2/dags/"


@dataclass
class AirflowAnswers:
    """What a running stand-in answers: 404 for every path that is not in ``states``.

    :param states: path below ``/api/v2/dags/`` → state
    :param paused: DAG → whether it is paused
    :param status: answer all with this status instead
    """

    url: str = ""
    states: dict[str, str | None] = field(default_factory=dict)
    paused: dict[str, bool] = field(default_factory=dict)
    status: int | None = None
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)


@contextmanager
def running_airflow_answers() -> Iterator[AirflowAnswers]:
    """Serve on a free loopback port until the block ends."""
    answers = AirflowAnswers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix(PREFIX)
            answers.asked.append(path)
            answers.tokens.add(self.headers.get("Authorization", ""))
            known = path in answers.states or path in answers.paused
            status = answers.status or (200 if known else 404)
            body = json.dumps({"state": answers.states.get(path), "is_paused": answers.paused.get(path)}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        answers.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield answers
        finally:
            server.shutdown()
            thread.join()
