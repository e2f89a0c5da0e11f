"""Minimal Spark job, with only the steps that all jobs share.

When it ends, Java has loaded the classes that all of them need.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

from sparkjobs.executors import Tally
from sparkjobs.executors.spark import GUARDED
from sparkjobs.executors.spark_task import TallyParam, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _work(item: int, report: Callable[[int, int], None]) -> Iterable[int]:
    report(1, 1)
    yield item


def main() -> int:
    """Run two tasks in Spark."""
    with SparkContext(conf=SparkConf().setAppName("holdfast rehearsal").setAll([*GUARDED.items()])) as context:
        tally = context.accumulator(Tally(), TallyParam())
        done = context.parallelize(range(2), 2).mapPartitions(telling(_work, tally, results=True)).collect()
    return 0 if done == [0, 1] and tally.value.rows == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
