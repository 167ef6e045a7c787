"""Whether a run's results are those of Spark's batch SQL over the same files."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evenflow import Run

Check = Callable[[Run], int]
"""Gives how many rows of query q are equal, which is all of them; raises if any differs."""


def same_windows(spark: SparkSession, files: Path, sql: str) -> Check:
    """Compare counts row by row; the window of the last row stays open."""
    spark.read.parquet(str(files)).createOrReplaceTempView("trades")
    answer = spark.sql(sql)
    last = answer.agg(F.max("s")).collect()[0][0]
    closed = answer.where(F.col("s") < F.lit(last))
    expected = closed.count()

    def check(run: Run) -> int:
        found = run.results("q")
        _demand(expected, found.count())
        # Where there are as many rows on both sides, one way tells of the other.
        differing = found.exceptAll(closed).count()
        if differing:
            raise RuntimeError(f"{differing} rows of {expected} differ from Spark's")
        return expected

    return check


def same_pairs(spark: SparkSession, files: Path, sql: str, *, reach_us: int) -> Check:
    """Compare a self-join, up to hundreds of millions of rows, by number and sums of hashes.

    Spark would look at all pairs of a key, which takes many minutes. So time is cut into slices as
    long as a pair reaches: b is in the slice of a or in the next, which changes no result.
    """
    spark.read.parquet(str(files)).createOrReplaceTempView("trades")
    cut = f"unix_micros(ts) div {reach_us}"
    seeing = spark.sql(f"SELECT *, {cut} AS slice FROM trades")
    seen = spark.sql(f"SELECT *, explode(array({cut} - 1, {cut})) AS slice FROM trades")
    seeing.createOrReplaceTempView("seeing")
    seen.createOrReplaceTempView("seen")
    sliced = sql.replace("trades a", "seeing a").replace("trades b", "seen b")
    expected = _sums(spark.sql(f"{sliced} AND a.slice = b.slice"))

    def check(run: Run) -> int:
        found = _sums(run.results("q"))
        _demand(expected[0], found[0])
        if found != expected:
            raise RuntimeError(f"some of {found[0]} rows differ from Spark's")
        return found[0]

    return check


def _demand(expected: int, found: int) -> None:
    if not expected or found != expected:
        raise RuntimeError(f"{found} rows came out, Spark's batch SQL has {expected}")


def _sums(rows: DataFrame) -> tuple[int, ...]:
    """Give the number of rows and the sums of both halves of their hashes, which do not overflow.

    Sums, unlike xor, also tell rows that are there twice from rows that are not there.
    """
    halves = [
        f"coalesce(sum({half}), 0)" for half in ("shiftright(hash, 32)", "hash & 4294967295L")
    ]
    hashed = rows.selectExpr("xxhash64(*) AS hash")
    return tuple(map(int, hashed.selectExpr("count(*)", *halves).collect()[0]))
