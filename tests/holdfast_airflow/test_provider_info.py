"""What the distribution says of itself as a provider."""

from __future__ import annotations

import json
from pathlib import Path


def test_provider_info_fits_airflows_schema() -> None:
    import airflow
    from jsonschema import validate  # type: ignore[import-untyped]

    from holdfast_airflow.provider_info import get_provider_info

    schema = json.loads(Path(airflow.__file__).with_name("provider_info.schema.json").read_text())
    validate(get_provider_info(), schema)
    assert get_provider_info()["package-name"] == "holdfast"
