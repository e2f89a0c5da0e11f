"""Starts the parts of an Airflow whose auth manager is FAB's, as `airflow standalone` does with its own.

All users are admins, with the password that its home has for the first.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

USERS = ("demo", "olga")
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")


def main() -> None:
    """Make the database and the users, and run the parts until they are ended."""
    subprocess.run(["airflow", "db", "migrate"], check=True)
    make_users(json.loads(Path(os.environ["AIRFLOW_HOME"], "passwords.json").read_text())[USERS[0]])
    parts = [subprocess.Popen(["airflow", part]) for part in PARTS]
    for part in parts:
        part.wait()


def make_users(password: str) -> None:
    """Make users by FAB's own functions, as `airflow users create` does."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        users = builder.sm
        for name in USERS:
            users.add_user(name, name, name, f"{name}@example.com", users.find_role("Admin"), password)


if __name__ == "__main__":
    main()
