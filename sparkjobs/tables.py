"""Tables of an archive as a Spark data source: `spark.read.format("holdfast")`, as of any recovery target.

spark.dataSource.register(ArchiveTables)
spark.read.format("holdfast").option("table", "public.orders").option("at", "latest").load("s3://backups/shop")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.point_in_time.schema_choice import parse_schema
from holdfast.tables import ArchivedTable, find_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType


class ArchiveTables(DataSource):
    """Spark data source of one table of an archive, whose URL is the path.

    Its options are `table`, and `at`, `source`, `schema`, `consistency` and `store` as for a restore.
    """

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        return from_arrow_schema(self._table().schema)

    def reader(self, schema: StructType) -> TableSourceReader:
        return TableSourceReader(self._table())

    def _table(self) -> ArchivedTable:
        options = self.options
        if "path" not in options or "table" not in options:
            raise PySparkValueError("""say which: .option("table", "schema.name").load("URL of the archive")""")
        return find_table(
            options["path"],
            options["table"],
            at=options.get("at", "latest"),
            source=options.get("source"),
            schema=parse_schema(options.get("schema", "auto")),
            consistency=options.get("consistency", "eventual"),
            coordination=options.get("store"),
        )


class TablePartition(InputPartition):
    """The table itself, or one of its partitions, by id."""


class TableSourceReader(DataSourceReader):
    def __init__(self, table: ArchivedTable) -> None:
        self._table = table

    def partitions(self) -> list[InputPartition]:
        return [TablePartition(part) for part in self._table.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in self._table.batches(partition.value):
            yield batch.cast(_in_spark(batch.schema))


def _in_spark(schema: pa.Schema) -> pa.Schema:
    """Return a schema as Spark takes it: its times are in nanoseconds, and it refuses others."""
    kinds = [pa.time64("ns") if pa.types.is_time(field.type) else field.type for field in schema]
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)])
