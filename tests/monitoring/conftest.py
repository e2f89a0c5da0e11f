"""A Prometheus on a free port of this machine that scrapes real metrics, and where its programs are."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.common.free_ports import free_port
from tests.support.jobs.command import until
from tests.support.monitoring import ALERTS, FOLDER
from tests.support.servers.scraping import scrape


def program(name: str) -> str:
    """Return the path of a program of Prometheus; these tests are for when it is there, and are never skipped."""
    if (found := shutil.which(name)) is None:
        pytest.fail(
            f"{name} is not on PATH: install it with 'apt-get install prometheus' on Debian and Ubuntu, elsewhere from "
            "https://prometheus.io/download, and run the test again"
        )
    return found


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def api(self, path: str, **parameters: str) -> dict[str, Any]:
        """Return the data of an answer that is no error."""
        status, _, text = scrape(self.url, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        answer = json.loads(text)
        assert (status, answer["status"]) == (200, "success"), f"{parameters}: {answer.get('error')}"
        found = answer["data"]
        assert isinstance(found, dict)
        return found

    def values(self, expression: str) -> list[float]:
        """Return the values of an expression now."""
        return [float(each["value"][1]) for each in self.api("query", query=expression)["result"]]

    def is_ready(self) -> bool:
        """Return whether it answers queries by now."""
        try:
            return scrape(self.url, "/-/ready")[0] == 200
        except OSError:
            return False


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """Run a Prometheus with our configuration and rules that scrapes one target each second.

    :param target: host and port.
    """
    settings = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    shutil.copy(ALERTS, folder)
    address = f"127.0.0.1:{free_port()}"
    words = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "prometheus.log").open("w") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
    try:
        prometheus = Prometheus(f"http://{address}")
        until(prometheus.is_ready, "Prometheus")
        yield prometheus
    finally:
        server.terminate()
        server.wait(60)
