"""Description of this package for Airflow's providers manager."""

from __future__ import annotations

from typing import Any

from holdfast import __version__

_MODULES = {
    "operators": (
        "acquire_lock archive_lock backup check_objectives compact drill job keep_lock mark migrate protected "
        "reap_locks recover_replicas release_lock restore sync_replica trim_log truncate vacuum verify"
    ),
    "sensors": "replica_caught_up restorable verified",
    "hooks": "archive postgres",
    "triggers": "keep lock poke quorum",
}
"""Names of modules by the folder they are in: every process of Airflow asks, so that no folder is read for it."""

_NAME = "Holdfast"

_TEXT = {"type": ["string", "null"]}

_ARCHIVE = {
    "connection-type": "holdfast",
    "hook-class-name": "holdfast_airflow.hooks.archive.HoldfastHook",
    "hook-name": "Holdfast archive",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "login", "password", "port"],
        "relabeling": {"host": "URL"},
        "placeholders": {"host": "s3://backups/shop", "key": "file:/run/secrets/holdfast.key"},
    },
    "conn-fields": {
        "key": {
            "label": "Key",
            "description": "Address of the key of an encrypted archive: file:/path, env:VARIABLE, command:WORDS or "
            "kms:WORDS.",
            "schema": _TEXT,
        },
    },
}

_DATABASE = {
    "connection-type": "holdfast_postgres",
    "hook-class-name": "holdfast_airflow.hooks.postgres.HoldfastPostgresHook",
    "hook-name": "Holdfast PostgreSQL",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Database", "login": "Role"},
        "placeholders": {
            "host": "db.example.net",
            "port": "5432",
            "schema": "shop",
            "login": "backup",
            "sslrootcert": "system",
        },
    },
    "conn-fields": {
        "sslmode": {
            "label": "TLS mode",
            "description": "verify-full encrypts, and proves that the server is the one of this name.",
            "schema": {
                **_TEXT,
                "enum": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full", None],
                "default": "verify-full",
            },
        },
        "sslrootcert": {
            "label": "Certificate authority",
            "description": "File with the certificates to trust, on each worker; 'system' for those of the machine.",
            "schema": _TEXT,
        },
        "sslcert": {"label": "Client certificate", "description": "File, on each worker.", "schema": _TEXT},
        "sslkey": {"label": "Client key", "description": "File, on each worker.", "schema": _TEXT},
    },
}


_CONFIG = {
    "holdfast": {
        "description": "The Holdfast page, and notifications. Archives are described in archives.yaml, not here.",
        "options": {
            "page_time_limit": {
                "description": "Seconds that the page waits for an archive's store.",
                "version_added": "0.1.0",
                "type": "float",
                "example": "30.0",
                "default": "15.0",
            },
            "page_looks": {
                "description": "Stores that the page asks at a time, at most.",
                "version_added": "0.1.0",
                "type": "integer",
                "example": "16",
                "default": "8",
            },
            "runbooks_url": {
                "description": "Where notifications say that the runbooks are: the address of the folder.",
                "version_added": "0.1.0",
                "type": "string",
                "example": "https://wiki.example.net/holdfast/runbooks",
                "default": "docs/runbooks",
            },
        },
    },
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's provider_info.schema.json."""
    return {
        "package-name": "holdfast",
        "name": _NAME,
        "description": "Back up SQL databases into shared archives and restore them to any point in time.",
        "versions": [__version__],
        "integrations": [{"integration-name": _NAME, "tags": ["service"]}],
        **{
            folder: [
                {
                    "integration-name": _NAME,
                    "python-modules": [f"holdfast_airflow.{folder}.{name}" for name in names.split()],
                }
            ]
            for folder, names in _MODULES.items()
        },
        "asset-uris": [
            {
                "schemes": ["x-holdfast"],
                "handler": "holdfast_airflow.assets.check_uri",
                "factory": "holdfast_airflow.assets.create_asset",
                "to_openlineage_converter": "holdfast_airflow.telemetry.lineage.dataset_of",
            }
        ],
        "connection-types": [_ARCHIVE, _DATABASE],
        "extra-links": [f"holdfast_airflow.links.{name}" for name in ("ArchiveLink", "JobLink")],
        "notifications": ["holdfast_airflow.notifications.HoldfastNotifier"],
        "plugins": [{"name": "holdfast", "plugin-class": "holdfast_airflow.plugin.HoldfastPlugin"}],
        "task-decorators": [{"name": "locked", "class-name": "holdfast_airflow.decorators.locked.locked"}],
        "config": _CONFIG,
    }
