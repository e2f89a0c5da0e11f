"""Spark application: append Parquet files to a table by JDBC; prints its figures as JSON."""

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
    parser.add_argument("--files", required=True)
    given = parser.parse_args()
    spark = SparkSession.builder.appName("bench: Parquet to JDBC").getOrCreate()
    started = time.monotonic()
    frame = spark.read.parquet(given.files)
    partitions = frame.rdd.getNumPartitions()
    (
        frame.write.format("jdbc")
        .mode("append")
        .option("url", given.url)
        .option("user", given.user)
        .option("password", os.environ["PGPASSWORD"])
        .option("driver", "org.postgresql.Driver")
        .option("dbtable", given.table)
        .option("batchsize", "10000")
        .save()
    )
    print(json.dumps({"seconds": time.monotonic() - started, "partitions": partitions}))
    spark.stop()


if __name__ == "__main__":
    main()
