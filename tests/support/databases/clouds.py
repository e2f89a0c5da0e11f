"""Roles like the administrators of managed clouds, as their documentation describes them; nothing of their patches.

What a cloud's own server lets such a role do beyond PostgreSQL (event triggers, superusers' extensions and settings) is
not here: a restore asks the server, so more rights leave out less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_RDS = (
    # 'Viewing roles and their privileges', Amazon RDS User Guide: groups that cannot log in, and what rds_superuser is
    # a member of, from 16 on WITH ADMIN. pg_read_all_data is not among them.
    "create role rds_password",
    "create role rds_replication",
    "create role rds_superuser",
    "grant pg_monitor, pg_signal_backend, rds_password, rds_replication to rds_superuser with admin option",
    # 'Understanding the rds_superuser role', there: CREATE ROLE postgres WITH LOGIN NOSUPERUSER INHERIT CREATEDB
    # CREATEROLE NOREPLICATION VALID UNTIL 'infinity'. Its \du shows no Bypass RLS.
    "create role rds login nosuperuser inherit createdb createrole noreplication valid until 'infinity'",
    "grant rds_superuser to rds",
)
_CLOUD_SQL = (
    # \du of Cloud SQL: cloudsqlsuperuser has Create role, Create DB and is a member of pg_monitor, pg_signal_backend.
    "create role cloudsqlsuperuser createdb createrole",
    "grant pg_monitor, pg_signal_backend to cloudsqlsuperuser",
    # 'About PostgreSQL users', Cloud SQL: 'Having full access to the pg_largeobject catalog table', in each database.
    # There: 'CREATEROLE, CREATEDB, and LOGIN. It does not have the SUPERUSER or REPLICATION attributes.' The second one
    # it may give, also to itself ('Set up logical replication': ALTER USER existing_user WITH REPLICATION).
    "create role cloudsql login createdb createrole replication",
    "grant cloudsqlsuperuser to cloudsql",
)
_AZURE = (
    # \du in github.com/MicrosoftDocs/azure-docs/issues/110503: azure_pg_admin 'Cannot login, Replication'. pg_monitor
    # may be granted (github.com/DataDog/documentation/pull/39602), pg_read_all_data not, from 16 on
    # (github.com/Azure/azure-service-operator/issues/4639).
    "create role azure_pg_admin replication",
    "grant pg_monitor to azure_pg_admin with admin option",
    # 'Describe built-in server roles', Microsoft Learn: LOGIN, NOSUPERUSER, INHERIT, CREATEDB, CREATEROLE, REPLICATION.
    # BYPASSRLS: 'use azure_pg_admin user to do administrative tasks that require BYPASSRLS', and from 16 on it may be
    # given (learn.microsoft.com/answers/questions/2006383), for which one must have it.
    "create role azure login nosuperuser inherit createdb createrole replication bypassrls",
    "grant azure_pg_admin to azure",
)

CLOUDS: Mapping[str, Sequence[str]] = MappingProxyType({"rds": _RDS, "cloudsql": _CLOUD_SQL, "azure": _AZURE})
"""What makes the administrator of each, by a superuser; it is called as the cloud is here."""

READS_LARGE_OBJECTS: Mapping[str, str] = MappingProxyType(
    {"cloudsql": "grant all on pg_catalog.pg_largeobject to cloudsqlsuperuser"}
)
"""What is granted in each database."""
