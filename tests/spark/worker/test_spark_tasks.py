"""The Python processes of Spark: their heap, their daemon, their random numbers."""

import gc
import weakref

from pyspark.sql import SparkSession

from evenflow.spark.worker import spark_tasks


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
        spark_tasks.freeze_heap()
        assert gc.get_freeze_count() > 0
        del garbage
        gc.collect()
        assert lost() is not None, "frozen before it became garbage"
        for _ in range(spark_tasks.COLLECT_EVERY_TASKS):
            spark_tasks.freeze_heap()
        assert lost() is None
        assert kept.itself is kept
    finally:
        gc.unfreeze()


def test_python_processes_are_forks_of_one_that_has_loaded_what_they_need(
    spark: SparkSession,
) -> None:
    name = "__import__('sys').modules['__main__'].__spec__.name"
    found = spark.sparkContext.parallelize([name], 1).map(eval).collect()
    assert found == ["evenflow.spark.worker.daemon"]


def test_forks_draw_different_random_numbers(spark: SparkSession) -> None:
    both_wait = "__import__('time').sleep(2)"  # so that no process gets both
    code = f"({both_wait}, __import__('os').getpid(), __import__('numpy').random.random())"
    (_, one, first), (_, two, second) = (
        spark.sparkContext.parallelize([code] * 2, 2).map(eval).collect()
    )
    assert one != two
    assert first != second
