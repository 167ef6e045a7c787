"""A backlog that needs more memory than an engine has spills to the disk and is worked off."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import InputError
from evenflow.model.limits import MemoryLimits
from evenflow.sql import Catalog, Engine, QueryFailed, Stream, compile_query
from evenflow.sql import spill as spill_module
from evenflow.sql.engine import ROWS_TABLE
from evenflow.sql.spill import EngineMemory, machine_memory_bytes

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.float64())])
CATALOG = Catalog({"s": Stream(SCHEMA, "ts", 0)}, {})
SQL = """SELECT window.start AS s, k, count(*) AS n, sum(v) AS total
    FROM s GROUP BY window(ts, '1 hour'), k"""
BEGIN_US, HOUR_US = 1_699_999_200_000_000, 3_600_000_000
GROUPS = 400_000  # 4 million need 256 MB and fail without spilling; a tenth needs a tenth


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path


def backlog() -> pa.Table:
    keys = np.random.default_rng(1).permutation(GROUPS)
    times = pa.array(np.full(GROUPS, BEGIN_US)).cast(pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": keys, "v": np.ones(GROUPS)}, schema=SCHEMA)


def count_groups(engine: Engine) -> pa.Table:
    """All groups at once, half of them again, then the results of the hour."""
    task = compile_query("q", SQL, CATALOG).open(engine)
    rows = backlog()
    task.step({"s": rows}, 0)
    task.save()
    task.step({"s": rows.slice(0, GROUPS // 2)}, 0)
    return task.step({"s": rows.slice(0, 0)}, BEGIN_US + HOUR_US).rows


def test_a_backlog_of_many_groups_is_worked_off(folder: Path) -> None:
    engine = Engine(memory=EngineMemory(32 << 20, 1 << 30))
    rows = count_groups(engine)
    assert rows.num_rows == GROUPS
    assert sorted(np.unique(rows["n"].to_numpy(), return_counts=True)[1].tolist()) == [
        GROUPS // 2,
        GROUPS // 2,
    ]
    assert np.unique(rows["k"].to_numpy()).size == GROUPS
    assert sum(rows["total"].to_pylist()) == GROUPS * 1.5
    assert len(list(folder.iterdir())) == 1
    engine.close()
    assert list(folder.iterdir()) == []


def test_without_disk_space_it_fails_and_names_the_limit() -> None:
    with pytest.raises(QueryFailed, match="memory limit") as failed:
        count_groups(Engine(memory=EngineMemory(32 << 20, 0)))
    assert failed.value.reason == "memory"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM glob('{folder}/*')",
        "SELECT content FROM read_text('{folder}/x')",
        "SELECT (SELECT count(*) FROM read_blob('{folder}/*')) AS n",
        "SELECT * FROM '{folder}/x.csv'",
        'SELECT * FROM "{folder}/x.parquet"',
        "WITH a AS (SELECT * FROM read_csv('{folder}/x.csv')) SELECT * FROM a",
        "SELECT 1 AS n UNION ALL SELECT count(*) FROM parquet_scan('{folder}/x')",
        "SELECT 1 AS n WHERE EXISTS (FROM read_text('{folder}/x'))",
        "COPY (SELECT 1) TO '{folder}/y.csv'",
        "ATTACH '{folder}/y.db'",
        "EXPORT DATABASE '{folder}/y'",
        "CREATE TABLE t AS SELECT 1",
        "SELECT 1; COPY (SELECT 1) TO '{folder}/y.csv'",
        "SELECT * FROM duckdb_settings()",
    ],
)
@pytest.mark.parametrize("prepared", [False, True])
def test_a_query_reaches_no_file_of_the_spill_folder(
    folder: Path, sql: str, prepared: bool
) -> None:
    engine = Engine(memory=EngineMemory(64 << 20, 1 << 30))
    (spill_folder,) = folder.iterdir()
    (spill_folder / "x").write_text("secret")
    (spill_folder / "x.csv").write_text("a\nsecret\n")
    before = sorted(path.name for path in spill_folder.iterdir())
    text = sql.format(folder=spill_folder)
    rows = pa.table({"a": [1]})
    with pytest.raises(QueryFailed):
        engine.run_prepared(text, rows) if prepared else engine.run(text, {})
    assert sorted(path.name for path in spill_folder.iterdir()) == before
    assert engine.run_prepared(f'SELECT a FROM "{ROWS_TABLE}"', rows).equals(rows)
    with pytest.raises(QueryFailed):
        engine.run("SELECT * FROM read_text('/etc/hostname')", {})


def test_the_folder_of_a_killed_process_is_deleted_by_the_next_one(folder: Path) -> None:
    code = f"""
import os, signal, tempfile
tempfile.tempdir = {str(folder)!r}
from evenflow.sql import Engine
from evenflow.sql.spill import EngineMemory
engine = Engine(memory=EngineMemory(64 << 20, 1 << 30))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = folder.iterdir()
    engine = Engine(memory=EngineMemory(64 << 20, 1 << 30))
    assert not left.exists()
    (mine,) = folder.iterdir()
    assert f"-{os.getpid()}-" in mine.name
    engine.close()


def test_limits_come_from_the_machine_or_from_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill_module, "machine_memory_bytes", lambda: 64 << 30)
    assert EngineMemory.by_limits(MemoryLimits(), 8).memory_bytes == 2 << 30
    assert EngineMemory.by_limits(MemoryLimits(), 800).memory_bytes == 256 << 20
    given = EngineMemory.by_limits(MemoryLimits("1 GB", "3 GB"), 8)
    assert (given.memory_bytes, given.spill_bytes) == (10**9, 3 * 10**9)
    assert EngineMemory.by_limits(MemoryLimits(spill="0 B"), 8).spill_bytes == 0
    assert machine_memory_bytes() > 1 << 28
    for memory in ("much", "1", "1 MB", "-1 GB"):
        with pytest.raises(InputError, match="memory"):
            MemoryLimits(memory)
