"""What Airflow's providers manager is told of this package."""

from __future__ import annotations

from typing import Any

from holdfast import __version__


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's provider_info.schema.json."""
    return {
        "package-name": "holdfast",
        "name": "Holdfast",
        "description": "Back up SQL databases into shared archives and restore them to any point in time.",
        "versions": [__version__],
        "task-decorators": [{"name": "locked", "class-name": "holdfast_airflow.decorators.locked.locked"}],
    }
