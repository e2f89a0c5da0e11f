"""An API server of Kubernetes as far as Spark asks one for executors: pods are recorded, and run as processes here.

What would be a container is `cluster/entrypoint.sh` with the pod's arguments and variables, as Docker runs our image.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

Asked = tuple[str, str, str]
"""A namespace, a verb and a resource, as a Role names them."""

Start = Callable[[dict[str, Any]], subprocess.Popen[bytes]]
"""Starts what a pod's specification asks for."""


@dataclass
class KubernetesApi:
    """Pods that were asked for.

    :param start: how they run.
    :param allowed: what may be asked; all else is answered with 403. None: everything.
    :param specifications: as they were sent.
    :param requests: what was asked, and `refused`: of that what was not allowed.
    """

    start: Start
    allowed: Collection[Asked] | None = None
    specifications: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)
    refused: list[Asked] = field(default_factory=list)
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


class _Handler(BaseHTTPRequestHandler):
    """Answers what concerns pods, and says that there is nothing else."""

    protocol_version = "HTTP/1.1"
    api: ClassVar[KubernetesApi]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self._ask("create")
        if body is None:
            return
        if self._resource == "pods":
            self._answer(self.api.create(body), 201)
        else:
            self._missing()

    def do_GET(self) -> None:
        if self._ask("get" if self._name else "list") is not None:
            self._show()

    def do_PATCH(self) -> None:
        if self._ask("patch") is not None:
            self._show()

    def do_DELETE(self) -> None:
        if self._ask("delete" if self._name else "deletecollection") is None:
            return
        for pod in self.api.pods() if self._resource == "pods" else ():
            if self._name in (pod["metadata"]["name"], ""):
                self.api.delete(pod["metadata"]["name"])
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    @property
    def _resource(self) -> str:
        return self._parts[0]

    @property
    def _name(self) -> str:
        return self._parts[1]

    @property
    def _parts(self) -> tuple[str, str]:
        """Return the resource and the name of `/api/v1/namespaces/NAMESPACE/RESOURCE/NAME`."""
        parts = [*urlsplit(self.path).path.strip("/").split("/"), ""]
        return parts[4], parts[5]

    def _ask(self, verb: str) -> Any:
        """Return the body of a request; None where it was refused, and is answered."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        asked = (urlsplit(self.path).path.split("/")[4], verb, self._resource)
        self.api.requests.append(asked)
        if self.api.allowed is None or asked in self.api.allowed:
            return body
        self.api.refused.append(asked)
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}, 403)
        return None

    def _show(self) -> None:
        pods = self.api.pods() if self._resource == "pods" else []
        found = [pod for pod in pods if pod["metadata"]["name"] == self._name]
        if found:
            self._answer(found[0])
        elif self._name:
            self._missing()
        else:
            said = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
            self._answer({**said, "items": pods})

    def _missing(self) -> None:
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)

    def _answer(self, said: dict[str, Any], status: int = 200) -> None:
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def kubernetes_api(start: Start, allowed: Collection[Asked] | None = None) -> Iterator[tuple[str, KubernetesApi]]:
    """Run an API server on loopback; yield its address and what it was asked for."""
    api = KubernetesApi(start, allowed)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
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
    """Return the environment that a pod's specification gives its container."""
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
