"""DAGs `restore_<archive>`: bring a source of each archive in archives.yaml back; triggered by hand."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast_airflow.archives import archive_dag, configured_archives
from holdfast_airflow.operators.restore import RestoreOperator

DOC = """
Restores from the archive **{name}** ({place}) into the database of an Airflow connection.

`at` is a moment that can be restored; `holdfast points` lists them. Any other is refused, and the message
names the nearest that can be. What was restored is compared with the archive before the task succeeds.

Without `tables` and `map`, everything comes back, into an empty database. With them, other things may be in the
database; they are left as they are. Try it as a dry run first: its plan is the task's return value.
"""

TABLES = """
Only these tables, one pattern a line, matched against schema.table (public.orders, sales.*). Their indexes, keys,
sequences and triggers come with them, and types and functions that they need. Empty: everything.
"""
MAP = """
Other names, one OLD=NEW a line: public=restored sends a schema's tables to another schema,
public.orders=public.orders_restored renames one table.
"""
AT = (
    "`latest`, a time with its offset such as `2026-11-21T17:05:00Z`, `commit:N`, `lsn:X/Y`, or `mark:NAME` "
    "(`holdfast points` lists what there is)."
)
TIME = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})"

for name, archive in configured_archives().items():
    sources = sorted(archive.sources)
    with archive_dag(
        "restore",
        name,
        archive,
        doc=DOC,
        tag="restore",
        description=f"Restore from the archive {name}",
        start_date=None,  # by hand alone, so that there is no first day
        params={
            # No default: a restore must never go to a database that nobody has named.
            "target_connection": Param(
                type="string",
                minLength=1,
                title="Target connection",
                description="Id of the Airflow connection (type postgres) to the database to restore into.",
            ),
            "source": Param(
                sources[0] if len(sources) == 1 else None,
                **({"enum": sources} if sources else {"type": ["null", "string"]}),
                title="Source",
                description="Which database to bring back.",
            ),
            "at": Param(
                "latest",
                type="string",
                pattern=f"^(latest|commit:[0-9]+|lsn:[0-9A-Fa-f]+/[0-9A-Fa-f]+|mark:.+|{TIME})$",
                title="At",
                description_md=AT,
            ),
            "tables": Param(
                [],
                # Without null the form marks the field as required.
                type=["null", "array"],
                items={"type": "string", "minLength": 1},
                title="Tables",
                description_md=TABLES,
            ),
            "map": Param(
                [],
                type=["null", "array"],
                items={"type": "string", "pattern": "^[^=]+=[^=]+$"},
                title="Other names",
                description_md=MAP,
            ),
            "roles": Param(
                "check",
                type="string",
                enum=["check", "create"],
                title="Roles",
                description="Roles that own or may use something must be there, or are created without passwords.",
            ),
            "tablespaces": Param(
                "drop",
                type="string",
                enum=["drop", "keep"],
                title="Tablespaces",
                description="Put everything into the database's own tablespace, or where it was.",
            ),
            "schema": Param(
                "auto",
                type="string",
                enum=["auto", "earlier", "later"],
                title="Schema",
                description="Where it was changed between two backups, and it is not known when: the one before, the "
                "one after, or the one that serves best.",
            ),
            "strict": Param(
                False,
                type="boolean",
                title="Strict",
                description="Fail where rows break a condition, the server refuses an object, or anything else that "
                "follows the rows does not come back. Otherwise it is left out, or added NOT VALID, and named in "
                "not_restored.",
            ),
            "trust_source": Param(
                False,
                type="boolean",
                title="Trust the source",
                description="Where a superuser restores, and no log-in without a superuser's rights can be had: let "
                "code of the source, such as a function that a CHECK calls, run with these rights.",
            ),
            "consistency": Param(
                archive.consistency,
                type="string",
                enum=["eventual", "sequential"],
                title="Consistency",
                description="Of an archive with replicas. Sequential: every backup whose quorum has succeeded, and "
                "nothing that waits for it or has failed. Eventual: what the first replica has.",
            ),
            "dry_run": Param(
                False,
                type="boolean",
                title="Dry run",
                description="Only make the plan and return it; nothing is changed.",
            ),
        },
    ) as dag:
        RestoreOperator(
            task_id="restore",
            archive=name,
            source=dag.param("source"),
            target_conn_id=dag.param("target_connection"),
            at=dag.param("at"),
            tables=dag.param("tables"),
            map=dag.param("map"),
            roles=dag.param("roles"),
            tablespaces=dag.param("tablespaces"),
            schema=dag.param("schema"),
            strict=dag.param("strict"),
            trust_source=dag.param("trust_source"),
            consistency=dag.param("consistency"),
            only_plan=dag.param("dry_run"),
        )
