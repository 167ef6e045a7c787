"""TPC-H over windows: the queries that can be asked of streams answer as Spark's batch SQL does."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sql.test_corpus import lines
from tests.sql.test_spark_semantics import spark  # noqa: F401 - a fixture

from evenflow import run_local
from evenflow.datasets import tpch_q5
from evenflow.datasets.tpch_queries import COLUMNS, NOT_CONTINUOUS, QUERIES
from evenflow.sql.types import canonical_type

SCALE, SECONDS = 0.002, 1_800  # six windows
Tables = Mapping[str, pa.Table]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("tpch")
    tpch_q5.generate_tables(folder, SCALE, COLUMNS)
    found = tpch_q5.read_tables(folder, COLUMNS)
    streams = tpch_q5.skewed_streams(found, np.random.default_rng(1), seconds=SECONDS)
    return found | streams


@pytest.fixture(scope="module")
def session(spark: Any, tables: Tables, tmp_path_factory: Any) -> Iterator[Any]:  # noqa: F811
    folder: Path = tmp_path_factory.mktemp("views")
    for name, table in tables.items():
        pq.write_table(table, folder / name, coerce_timestamps="us")
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    yield spark
    for name in tables:
        spark.catalog.dropTempView(name)


def answer(name: str, tables: Tables) -> pa.Table:
    streams = {stream: tables[stream] for stream in tpch_q5.STREAMS}
    references = {other: rows for other, rows in tables.items() if other not in streams}
    return run_local(QUERIES[name], streams, time="ts", tables=references, batches=3, workers=2)


def test_every_query_of_tpc_h_is_asked_or_has_a_reason() -> None:
    assert set(QUERIES) | set(NOT_CONTINUOUS) == {f"q{number}" for number in range(1, 23)}
    assert not set(QUERIES) & set(NOT_CONTINUOUS)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_windows_answer_as_spark_does(session: Any, tables: Tables, name: str) -> None:
    wanted, got = session.sql(QUERIES[name]).toArrow(), answer(name, tables)
    columns = [(field.name, str(canonical_type(field.type))) for field in wanted.schema]
    assert [(field.name, str(field.type)) for field in got.schema] == columns
    assert got.num_rows > 5
    assert lines(got) == lines(wanted)
