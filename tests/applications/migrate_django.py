"""Migrates a database of a Django application, run by the application's own Python: `migrate_django.py NAME [COUNT]`.

Prints how many migrations are left to apply; with COUNT, applies so many of them first, in Django's own order. The
database is in the environment, as libpq reads it.
"""

from __future__ import annotations

import os
import sys

import django
from django.conf import settings

BASE = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.sites",
    "django.contrib.flatpages",
]


def applications(name: str) -> tuple[list[str], dict[str, object]]:
    """Return the installed apps of an application, and its settings."""
    if name == "wagtail":
        parts = ["contrib.forms", "contrib.redirects", "embeds", "sites", "users", "snippets", "documents", "images",
                 "search", "admin"]  # fmt: skip
        return [*(f"wagtail.{part}" for part in parts), "wagtail", "modelcluster", "taggit", *BASE], {}
    from oscar import INSTALLED_APPS, defaults

    kept = {key: value for key, value in vars(defaults).items() if key.isupper()}
    return INSTALLED_APPS, kept


def main() -> None:
    """Apply what is asked for."""
    name, *count = sys.argv[1:]
    installed, more = applications(name)
    settings.configure(
        INSTALLED_APPS=installed,
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}},
        SECRET_KEY="not one",
        SITE_ID=1,
        USE_TZ=True,
        STATIC_URL="/static/",
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        WAGTAILADMIN_BASE_URL="http://localhost",
        WAGTAIL_SITE_NAME="site",
        HAYSTACK_CONNECTIONS={"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}},
        **more,
    )
    django.setup()
    from django.core.management.sql import emit_post_migrate_signal
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    leaves = executor.loader.graph.leaf_nodes()
    plan = executor.migration_plan(leaves)
    if count:
        plan, left = plan[: int(count[0])], plan[int(count[0]) :]
        state = executor.migrate(leaves, plan=plan)
        state.clear_delayed_apps_cache()
        # What an application makes behind its migrations, such as permissions, younger ones rely on.
        emit_post_migrate_signal(0, interactive=False, db="default", apps=state.apps, plan=plan)
        plan = left
    sys.stdout.write(f"{len(plan)}\n")


if __name__ == "__main__":
    main()
