"""Spark application: read one table by JDBC and write it as Parquet; prints its figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
import time

from pyspark.sql import SparkSession


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--upper", required=True)
    parser.add_argument("--partitions", required=True)
    parser.add_argument("--target", required=True)
    given = parser.parse_args()
    spark = SparkSession.builder.appName("bench: JDBC to Parquet").getOrCreate()
    started = time.monotonic()
    frame = (
        spark.read.format("jdbc")
        .option("url", given.url)
        .option("user", given.user)
        .option("password", os.environ["PGPASSWORD"])
        .option("driver", "org.postgresql.Driver")
        .option("dbtable", given.table)
        .option("partitionColumn", given.key)
        .option("lowerBound", "1")
        .option("upperBound", given.upper)
        .option("numPartitions", given.partitions)
        .option("fetchsize", "10000")
        .load()
    )
    frame.write.option("compression", "zstd").parquet(given.target)
    print(json.dumps({"seconds": time.monotonic() - started}))
    spark.stop()


if __name__ == "__main__":
    main()
