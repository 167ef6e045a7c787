"""What a Python process of Spark's does besides a worker's batch."""

import gc
import weakref

from pyspark.sql import SparkSession

from evenflow.spark import tasks


class Thing:
    """Something that can be part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


def test_what_survived_is_skipped_by_the_collector_and_looked_through_now_and_then() -> None:
    kept, lost = Thing(), weakref.ref(Thing())
    gc.collect()
    assert lost() is None
    lost = weakref.ref(garbage := Thing())
    try:
        tasks.settle()
        assert gc.get_freeze_count() > 0
        del garbage
        gc.collect()
        assert lost() is not None, "frozen before it became garbage"
        for _ in range(tasks.LOOK_THROUGH):
            tasks.settle()
        assert lost() is None
        assert kept.itself is kept
    finally:
        gc.unfreeze()


def test_python_processes_begin_with_what_they_need(spark: SparkSession) -> None:
    loaded = "int({!r} in __import__('sys').modules)".format
    asked = [loaded(name) for name in ("evenflow.spark.tasks", "duckdb", "evenflow.cli")]
    found = spark.sparkContext.parallelize(asked, 1).map(eval).collect()
    assert found == [1, 1, 0]
