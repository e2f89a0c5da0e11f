"""Tables of an archive as a Spark data source; how they are found and read is in tests/holdfast/test_tables.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkValueError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DateType, DecimalType, LongType, StringType

from holdfast.archive import Archive
from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from sparkjobs.tables import ArchiveTables
from tests.support.archives.queried import fill
from tests.support.jobs.inline_jobs import RunJob


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    made = Archive.create(open_store(str(tmp_path / "archive")), name="shop").store
    fill(made)
    return made


def source(store: ObjectStore, **options: str) -> ArchiveTables:
    return ArchiveTables({"path": store.url, "table": "shop.orders", **options})


def test_its_format_has_a_name() -> None:
    assert ArchiveTables.name() == "holdfast"


@pytest.mark.parametrize("options", [{}, {"path": "/archive"}, {"table": "shop.orders"}])
def test_the_archive_and_the_table_have_to_be_said(options: dict[str, str]) -> None:
    with pytest.raises(PySparkValueError, match="say which: "):
        ArchiveTables(options).schema()


def test_columns_have_the_types_that_spark_knows(store: ObjectStore) -> None:
    fields = {field.name: field.dataType for field in source(store).schema().fields}
    assert fields["id"] == LongType()
    assert fields["day"] == DateType()
    assert fields["day__exact"] == StringType()
    assert fields["price"] == DecimalType(10, 2)


@pytest.mark.parametrize(("at", "texts"), [("commit:1", ["a", "b", "c"]), ("latest", ["c", "changed", "new"])])
def test_rows_are_read_as_of_the_recovery_target(store: ObjectStore, at: str, texts: list[str]) -> None:
    made = source(store, at=at)
    reader = made.reader(made.schema())
    [part] = reader.partitions()
    assert sorted(row["text"] for batch in reader.read(part) for row in batch.to_pylist()) == texts


def test_each_partition_of_a_table_is_read_by_a_task_of_its_own(store: ObjectStore) -> None:
    made = source(store, table="shop.all_places")
    reader = made.reader(made.schema())
    assert [part.value for part in reader.partitions()] == ["5"]


@pytest.mark.parametrize("options", [{"table": "shop.nothing"}, {"schema": "newest"}, {"source": "crm"}])
def test_what_does_not_exist_is_refused(store: ObjectStore, options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        source(store, **options).schema()


@pytest.mark.service
def test_batches_have_the_types_that_spark_asks_for_also_for_times(
    store: ObjectStore, run_backup: RunJob, create_database: Callable[..., Address]
) -> None:
    shop = create_database(
        "create table hours (id int primary key, opens time, closes time(0), at timestamp, sum numeric(9, 2))",
        "insert into hours values (1, '08:30:00.000001', '24:00', now(), 1.5), (2, null, '18:00', now(), 2)",
    )
    assert run_backup(shop, "--new-source")[0] == 0
    made = source(store, table="public.hours", source="shop")
    reader = made.reader(made.schema())
    (batch,) = reader.read(reader.partitions()[0])
    assert batch.schema.types == to_arrow_schema(made.schema()).types
    assert [str(each) for each in batch.column("opens").to_pylist()] == ["08:30:00.000001", "None"]
