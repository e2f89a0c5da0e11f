"""DAG files of other people, archives.yaml and a policy, for the Airflow that tests run; `format` fills them in."""

from __future__ import annotations

ARCHIVES = """
  books:
    url: {folder}/books
    encryption: {{key: "file:{folder}/key"}}
    compaction: {{min_blocks: 2, min_age: 0s}}
    vacuum: {{grace: 0s}}
    deadline: {{drill: 0s}}
    drill: {{assertions: ["select count(*) = 100 from orders"]}}
    alerts:
      - notifier: tests.support.airflow.alerts.FileNotifier
        arguments:
          path: {folder}/alerts
          text: "{{{{ dag.dag_id }}}}: {{{{ exception }}}}\\n{{{{ holdfast.text }}}}"
    sources:
      shop: {{url: "{gone}"}}
  trio:
    replicas: {{near: s3://near/trio, far: s3://far/trio, third: s3://third/trio}}
    store: "{store}"
    quorum: 2
    spark_connection: spark_cluster
    sources:
      crm: {{url: "{crm}"}}
      other: {{connection: other}}
  accounts:
    url: {folder}/accounts
    sources:
      accounts: {{url: "{accounts}"}}
  warehouse:
    url: {folder}/warehouse
    sources:
      warehouse: {{url: "{warehouse}"}}
  market:
    url: {folder}/market
    approval: {{operations: [restore], within: 1h, users: [olga]}}
    keep: {{last: 1}}
    compaction: {{min_blocks: 2, min_age: 0s}}
    sources:
      shop:
        url: "{market}"
        objectives: {{rpo: 1d, drill_within: 7d}}
  gone:
    url: {folder}/gone
    sources: {{crm: {{url: "{market}"}}}}
  idle:
    url: {folder}/gone
    pool: backups
"""

LOCKED_DAG = '''
"""A report that nobody else may write at the same time."""
from airflow.sdk import DAG, task
from holdfast_airflow.operators import AcquireLock, ReleaseLock

@task
def look(fail):
    import locking
    from holdfast.storage import open_store
    found = [[i.resource, i.mode, i.owner.scope, i.owner.run_id] for i in locking.inspect(open_store({url!r}))]
    if fail:
        raise RuntimeError("asked to fail")
    return found

with DAG("report", schedule=None, params={{"fail": False}}) as dag:
    lock = AcquireLock(task_id="lock", archive={url!r}, resource="report", purpose="the report")
    unlock = ReleaseLock(task_id="unlock", acquire="lock").as_teardown(setups=lock)
    lock >> look(dag.param("fail")) >> unlock
'''

KEPT_DAG = '''
"""Work that goes on until its lock was renewed, and then until it may end."""
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG, task
from holdfast_airflow.operators import archive_lock

@task
def work(may_end):
    import time
    def modified():
        (path,) = Path({url!r}, "locks", {name!r}).glob("WRIT.*")
        return path.stat().st_mtime_ns
    taken = modified()
    while modified() == taken:
        time.sleep(0.1)
    while not Path(may_end).exists():
        time.sleep(0.1)

with DAG({name!r}, schedule=None, params={{"may_end": "/"}}) as dag:
    with archive_lock("ledger", archive={url!r}, resource={name!r}, lease=timedelta(seconds=60)):
        work(dag.param("may_end"))
'''

PAUSED_DAG = '''
"""Two tasks under one lock, between which somebody pauses the DAG."""
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG, task
from holdfast_airflow.operators import archive_lock

@task
def first(may_end):
    import time
    while not Path(may_end).exists():
        time.sleep(0.1)

@task
def second():
    print("at work without a lock")

with DAG("interrupted", schedule=None, params={{"may_end": "/"}}) as dag:
    with archive_lock(
        archive={url!r}, resource="interrupted", lease=timedelta(seconds=60), max_idle=timedelta(seconds=1)
    ):
        first(dag.param("may_end")) >> second()
'''

MAPPED_DAG = '''
"""Work on several things at once, each under locks of its own."""
from airflow.sdk import DAG, task, task_group
from holdfast_airflow.operators import AcquireLock, ReleaseLock, archive_lock

def held():
    import locking
    from holdfast.storage import open_store
    return sorted({{i.resource for i in locking.inspect(open_store({url!r})) if i.state == "held"}})

@task
def work(resource):
    if resource == "bad":
        raise RuntimeError("asked to fail")
    return held()

@task.locked(archive={url!r}, resource="alone", trigger_rule="all_done")
def alone(number):
    return [number, held()]

@task
def look():
    return held()

with DAG("mapped", schedule=None):

    @task_group
    def load(resource):
        with archive_lock("one", archive={url!r}, resource=resource):
            work(resource)

    got = AcquireLock.partial(task_id="got", archive={url!r}).expand(resource=["x", "y"])
    load.expand(resource=["good", "bad"]) >> alone.expand(number=[1, 2])
    got >> look() >> ReleaseLock(task_id="left", acquire="got").as_teardown(setups=got)
'''

REAPER_DAG = '''
"""Ends what is over."""
from airflow.sdk import DAG
from holdfast_airflow.operators import ReapLocks

with DAG("reaper", schedule=None):
    ReapLocks(task_id="reap", archive={url!r})
'''

DAGS = {
    "report": LOCKED_DAG,
    "ledger": KEPT_DAG,
    "ended": KEPT_DAG,
    "interrupted": PAUSED_DAG,
    "mapped": MAPPED_DAG,
    "reaper": REAPER_DAG,
}
"""By name of file and DAG, those that take locks; `format` fills in the store's `url` and the DAG's `name`."""

PROTECTED_DAG = '''
"""A migration that can be gone back before, also where it fails."""
from airflow.sdk import DAG, task
from holdfast_airflow.operators import protected

@task
def migrate(fail):
    import psycopg
    with psycopg.connect({url!r}, autocommit=True) as session:
        session.execute("alter table public.accounts alter n type bigint using n * 100")
    if fail:
        raise RuntimeError("asked to fail")

with DAG("migrate_accounts", schedule=None, params={{"fail": True}}) as dag:
    with protected("4.2", archive="accounts", source="accounts", job_executor="inline"):
        migrate(dag.param("fail"))
'''

POLICY = '''
"""Airflow asks this of each DAG and task: the demo and the cluster are by Spark, and what others do needs none."""
from datetime import timedelta

def dag_policy(dag):
    # What the schedule alone begins, and no test looks at.
    if dag.dag_id.startswith(("lock_reaper_", "objectives_")):
        dag.is_paused_upon_creation = True
    if dag.dag_id == "backup_market":
        from airflow.providers.openlineage.utils.selective_enable import enable_lineage
        enable_lineage(dag)

def task_policy(task):
    task.retry_delay = timedelta(seconds=1)  # a sync while its replica is away would keep the next one waiting
    by_spark = task.dag_id.endswith("_shop") or task.dag_id in ("backup_trio", "restore_trio")
    if not by_spark and hasattr(task, "job_executor"):
        task.job_executor = "inline"
'''
