"""The text that Prometheus reads, and the file of node_exporter's textfile collector."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import GaugeMetricFamily

from holdfast.common.cleanup import clean_up
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.metrics.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.core import Metric

    from holdfast.metrics.catalogue import Sample

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_MODE = 0o644
"""node_exporter, another user, must be able to read it."""


class _Families:
    """Samples for the client library: by metric, in the order of the catalogue."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        by_name: dict[str, list[Sample]] = {}
        for each in self._samples:
            by_name.setdefault(each.name, []).append(each)
        for name, metric in CATALOGUE.items():
            if name in by_name:
                family = GaugeMetricFamily(name, f"{metric.help}.", labels=metric.labels)
                for each in by_name[name]:
                    family.add_metric(list(each.labels.values()), each.value)
                yield family


def render(samples: Sequence[Sample]) -> bytes:
    """Return samples in Prometheus' text exposition format."""
    return generate_latest(_Families(samples))


def check_target(path: Path) -> None:
    """Raise UsageError if the folder of a file is missing, or the path is a folder."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {path.name}: make it, or name another file")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it, such as {path / 'holdfast.prom'}")


def write(path: Path, body: bytes) -> None:
    """Replace a file's content in one step; raises HoldfastError if it cannot be written."""
    try:
        _replace(path, body)
    except OSError as error:
        raise HoldfastError(f"{path} cannot be written: {error.strerror}. Make its folder writable") from error


def _replace(path: Path, body: bytes) -> None:
    # node_exporter ignores this suffix.
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fchmod(file.fileno(), _MODE)
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException as error:
        clean_up(error, Path(made).unlink)
        raise
