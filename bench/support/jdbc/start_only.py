"""Spark application that does nothing: it makes Spark fetch the packages it is submitted with."""

from __future__ import annotations

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.appName("bench: fetch packages").getOrCreate().stop()
