"""Airflow's Variables, where no Airflow runs."""

from __future__ import annotations

import json
from typing import Any


class Variables:
    """Stand-in for `airflow.sdk.Variable`.

    :param fails: each call does, as where Airflow cannot be asked.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.fails = False

    def get(self, key: str, default: Any, *, deserialize_json: bool) -> Any:
        """Return a value, or the default."""
        assert deserialize_json
        self._answer()
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key: str, value: Any, *, serialize_json: bool) -> None:
        """Set a value."""
        assert serialize_json
        self._answer()
        self.values[key] = json.dumps(value)

    def delete(self, key: str) -> None:
        """Delete a value."""
        self._answer()
        self.values.pop(key, None)

    def _answer(self) -> None:
        if self.fails:
            raise RuntimeError("Airflow does not answer")
