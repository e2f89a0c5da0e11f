"""Migrates a database of an application that uses Alembic, run by its own Python: `migrate_alembic.py NAME [COUNT]`.

Prints how many revisions are left to apply; with COUNT, applies so many of them first, from the oldest on. The database
is in the environment, as libpq reads it.
"""

from __future__ import annotations

import os
import sys
from typing import Any
from urllib.parse import quote


def address(driver: str) -> str:
    """Return the database as SQLAlchemy writes it."""
    user, password = (quote(os.environ[each], safe="") for each in ("PGUSER", "PGPASSWORD"))
    place = f"{os.environ['PGHOST']}:{os.environ['PGPORT']}/{quote(os.environ['PGDATABASE'], safe='')}"
    return f"postgresql+{driver}://{user}:{password}@{place}"


def of_mlflow() -> Any:
    """Return the configuration of MLflow's tracking store, whose first tables are made without Alembic."""
    import sqlalchemy
    from mlflow.store.db.utils import _get_alembic_config
    from mlflow.store.tracking.dbmodels.initial_models import Base

    engine = sqlalchemy.create_engine(address("psycopg2"))
    if not sqlalchemy.inspect(engine).has_table("experiments"):
        Base.metadata.create_all(engine)
    return _get_alembic_config(address("psycopg2"))


def of_prefect() -> Any:
    """Return the configuration of Prefect's server."""
    os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = address("asyncpg")
    from prefect.server.database.alembic_commands import alembic_config

    config = alembic_config()
    # Prefect's environment says so only while it migrates: each kind of database has its own.
    config.set_main_option("version_locations", "%(here)s/_migrations/versions/postgresql")
    return config


def of_airflow() -> Any:
    """Return the configuration of Airflow's metadata."""
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = address("psycopg2")
    from airflow.utils.db import _get_alembic_config

    return _get_alembic_config()


def upgrade(config: Any, revision: str) -> None:
    """Apply all up to a revision, in a thread beside an event loop: Prefect's environment calls it from there."""
    import anyio
    from alembic import command

    anyio.run(anyio.to_thread.run_sync, command.upgrade, config, revision)


CONFIGURATIONS = {"mlflow": of_mlflow, "prefect": of_prefect, "airflow": of_airflow}


def main() -> None:
    """Apply what is asked for."""
    name, *count = sys.argv[1:]
    config = CONFIGURATIONS[name]()
    import psycopg2
    from alembic.script import ScriptDirectory

    revisions = [each.revision for each in ScriptDirectory.from_config(config).walk_revisions()][::-1]
    done = 0
    with psycopg2.connect("") as session, session.cursor() as cursor:
        cursor.execute("select to_regclass('alembic_version')")
        if cursor.fetchone() != (None,):
            cursor.execute("select version_num from alembic_version")
            done = max((revisions.index(row[0]) + 1 for row in cursor.fetchall()), default=0)
    if count:
        done += int(count[0])
        upgrade(config, revisions[done - 1])
    sys.stdout.write(f"{len(revisions) - done}\n")


if __name__ == "__main__":
    main()
