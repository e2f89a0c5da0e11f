"""An API server of Kubernetes as far as Spark asks one for executors: pods are recorded, and run as processes here.

What would be a container is `cluster/entrypoint.sh` with the pod's arguments and variables, as Docker runs our image.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Start = Callable[[dict[str, Any]], subprocess.Popen[bytes]]
"""Starts what a pod's specification asks for."""


@dataclass
class KubernetesApi:
    """Pods that were asked for.

    :param start: how they run.
    :param specifications: as they were sent.
    """

    start: Start
    specifications: list[dict[str, Any]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    _pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Record a pod and run it."""
        name = pod["metadata"]["name"]
        with self._guard:
            self.specifications.append(json.loads(json.dumps(pod)))
            pod["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(len(self.specifications))}
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
            pod["status"] = {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": []}
            self._pods[name] = pod
            self._processes[name] = self.start(pod)
        return pod

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that are there, each with how its process is."""
        with self._guard:
            for name, process in self._processes.items():
                if name in self._pods and process.poll() is not None:
                    self._pods[name]["status"]["phase"] = "Failed" if process.returncode else "Succeeded"
            return list(self._pods.values())

    def delete(self, name: str) -> None:
        """End a pod's process."""
        with self._guard:
            self._pods.pop(name, None)
            process = self._processes.get(name)
        if process is not None and process.poll() is None:
            process.terminate()

    def end(self) -> None:
        """End all of them, and wait."""
        for name in [*self._processes]:
            self.delete(name)
        for process in self._processes.values():
            process.wait(timeout=60)


@contextmanager
def kubernetes_api(start: Start) -> Iterator[tuple[str, KubernetesApi]]:
    """Run an API server on loopback; yield its address and what it was asked for."""
    api = KubernetesApi(start)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def answer(self, said: dict[str, Any], status: int = 200) -> None:
            text = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def body(self) -> Any:
            return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

        def missing(self) -> None:
            api.others.append(f"{self.command} {self.path}")
            self.body()
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)

        def do_POST(self) -> None:
            if urlsplit(self.path).path.endswith("/pods"):
                self.answer(api.create(self.body()), 201)
            else:
                self.missing()

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path.endswith("/pods"):
                said = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
                self.answer({**said, "items": api.pods()})
            elif found := [pod for pod in api.pods() if path.endswith(f"/pods/{pod['metadata']['name']}")]:
                self.answer(found[0])
            else:
                self.missing()

        def do_PATCH(self) -> None:
            self.body()
            self.do_GET()

        def do_DELETE(self) -> None:
            path = urlsplit(self.path).path
            self.body()
            names = [pod["metadata"]["name"] for pod in api.pods()]
            for name in names:
                if path.endswith(("/pods", f"/pods/{name}")):
                    api.delete(name)
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", api
    finally:
        api.end()
        server.shutdown()
        server.server_close()
        thread.join()


def variables_of(pod: dict[str, Any]) -> dict[str, str]:
    """Return the environment that a pod's specification gives its container, with its own address where it asks for it."""
    (container,) = pod["spec"]["containers"]
    said = {each["name"]: each.get("value") for each in container.get("env", ())}
    fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    for each in container.get("env", ()):
        if "valueFrom" in each:
            said[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
    return {name: value or "" for name, value in said.items()}


def inherited() -> dict[str, str]:
    """Return what a container has of its image: programs, and nothing of the driver's environment."""
    return {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
