"""Checks the results of a run against Spark's batch SQL over the same files."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evenflow import Run

Check = Callable[[Run], int]
"""Returns the number of rows of query q; raises if any differs."""


def window_check(spark: SparkSession, files: Path, sql: str) -> Check:
    """Compare counts row by row, without the last window, which stays open."""
    spark.read.parquet(str(files)).createOrReplaceTempView("trades")
    answer = spark.sql(sql)
    last = answer.agg(F.max("s")).collect()[0][0]
    closed = answer.where(F.col("s") < F.lit(last))
    expected = closed.count()

    def check(run: Run) -> int:
        results = run.results("q")
        _check_count(expected, results.count())
        # With equal counts, a difference in one direction implies one in the other.
        differing = results.exceptAll(closed).count()
        if differing:
            raise RuntimeError(f"{differing} rows of {expected} differ from Spark's")
        return expected

    return check


def pair_check(spark: SparkSession, files: Path, sql: str, *, reach_us: int) -> Check:
    """Compare a self-join, up to hundreds of millions of rows, by number and sums of hashes.

    Spark would compare all pairs of a key, which takes many minutes. So time is cut into slices of
    `reach_us`: the partner of a row is in its slice or the next. The results are the same.
    """
    spark.read.parquet(str(files)).createOrReplaceTempView("trades")
    slice_sql = f"unix_micros(ts) div {reach_us}"
    left = spark.sql(f"SELECT *, {slice_sql} AS slice FROM trades")
    right = spark.sql(
        f"SELECT *, explode(array({slice_sql} - 1, {slice_sql})) AS slice FROM trades"
    )
    left.createOrReplaceTempView("left_rows")
    right.createOrReplaceTempView("right_rows")
    sliced = sql.replace("trades a", "left_rows a").replace("trades b", "right_rows b")
    expected = _sums(spark.sql(f"{sliced} AND a.slice = b.slice"))

    def check(run: Run) -> int:
        sums = _sums(run.results("q"))
        _check_count(expected[0], sums[0])
        if sums != expected:
            raise RuntimeError(f"some of {sums[0]} rows differ from Spark's")
        return sums[0]

    return check


def _check_count(expected: int, count: int) -> None:
    if not expected or count != expected:
        raise RuntimeError(f"the run has {count} rows, Spark's batch SQL {expected}")


def _sums(rows: DataFrame) -> tuple[int, ...]:
    """Return the number of rows and the sums of both halves of their hashes.

    Halves do not overflow; sums, unlike xor, also detect duplicate and missing rows.
    """
    halves = [
        f"coalesce(sum({half}), 0)" for half in ("shiftright(hash, 32)", "hash & 4294967295L")
    ]
    hashed = rows.selectExpr("xxhash64(*) AS hash")
    return tuple(map(int, hashed.selectExpr("count(*)", *halves).collect()[0]))
