"""The arguments of a job's application."""

from __future__ import annotations

from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.postgresql.connection.address import Address
from holdfast_airflow.jobs.prepared_job import PreparedJob


def test_arguments_are_those_of_the_request_and_hold_no_secret() -> None:
    job = PreparedJob(
        url="/archive",
        run="vacuum.1",
        source="shop_db",
        database=Address("postgresql://me@db.example/shop", "hunter2"),
        request=VacuumRequest(dry_run=True),
        key="file:///secret/key",
    )
    assert job.arguments == ["--archive", "/archive", "--run", "vacuum.1", "--dry-run"]
    assert "hunter2" not in str(job)
