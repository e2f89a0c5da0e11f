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

    from holdfast.metrics.samples import Sample

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_MODE = 0o644
"""node_exporter is another user, and must be able to read it."""


class _Families:
    """Samples as the client library takes them: by metric, in the order of the catalogue."""

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
    """Check that a file can be made at a path, before anything is collected for it.

    :raises UsageError: its folder is missing, or the path is a folder's.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {path.name}: make it, or name another file")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it, such as {path / 'holdfast.prom'}")


def write(path: Path, body: bytes) -> None:
    """Write the text into a file that is whole at any time; who reads it has the old one or the new one.

    :raises HoldfastError: it cannot be written.
    """
    try:
        _replace(path, body)
    except OSError as error:
        raise HoldfastError(f"{path} cannot be written: {error.strerror}. Make its folder writable for us") from error


def _replace(path: Path, body: bytes) -> None:
    # node_exporter reads no name that ends so.
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
