"""Windowed aggregates, small and by hand; the random ones are in test_oracle."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenflow.model import hash_keys
from evenflow.model.time import MAX_EVENT_TIME_US, MIN_EVENT_TIME_US, NO_WATERMARK_US
from evenflow.sql import Catalog, Engine, Stream, Task, compile_query

SECOND = 1_000_000
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64())]
)
CATALOG = Catalog({"trades": Stream(SCHEMA, "ts")})


def trades(*rows: tuple[float | None, str, float]) -> pa.Table:
    times = [None if t is None else int(t * SECOND) for t, _, _ in rows]
    return pa.Table.from_arrays(
        [
            pa.array(times, pa.int64()).cast(SCHEMA.field("ts").type),
            pa.array([s for _, s, _ in rows], pa.string()),
            pa.array([p for _, _, p in rows], pa.float64()),
        ],
        schema=SCHEMA,
    )


def seconds(table: pa.Table, column: str) -> list[float]:
    return [v / SECOND for v in table.column(column).cast(pa.int64()).to_pylist()]


def due(task: Task) -> int | None:
    return task.next_due_us


@pytest.fixture(scope="module")
def engine() -> Any:
    made = Engine()
    yield made
    made.close()


COUNT = "SELECT window.end AS e, symbol, count(*) AS n FROM trades GROUP BY symbol, window(ts, {})"


def test_a_window_is_answered_once_when_the_watermark_passes_its_end(engine: Engine) -> None:
    task = compile_query("q", COUNT.format("'10 seconds'"), CATALOG).open(engine)
    assert (
        task.step({"trades": trades((1, "a", 1), (9, "a", 1), (10, "a", 1))}, 0).rows.num_rows == 0
    )
    assert due(task) == 10 * SECOND
    first = task.step({}, 10 * SECOND).rows
    assert (seconds(first, "e"), first["n"].to_pylist()) == ([10.0], [2])
    assert task.step({}, 19 * SECOND).rows.num_rows == 0
    assert task.step({}, 20 * SECOND).rows["n"].to_pylist() == [1]
    assert due(task) is None
    assert task.state_bytes == 0


def test_rows_of_answered_windows_are_late_and_counted(engine: Engine) -> None:
    task = compile_query("q", COUNT.format("'10 seconds'"), CATALOG).open(engine)
    task.step({"trades": trades((1, "a", 1))}, 0)
    out = task.step({"trades": trades((2, "a", 1), (3, "b", 1), (12, "a", 1))}, 11 * SECOND)
    assert out.late == {"trades": 2}
    assert out.rows["n"].to_pylist() == [1]


def test_a_sliding_window_counts_a_row_in_each_window_over_it(engine: Engine) -> None:
    task = compile_query("q", COUNT.format("'10 seconds', '5 seconds'"), CATALOG).open(engine)
    task.step({"trades": trades((7, "a", 1))}, 0)
    rows = task.step({}, 100 * SECOND).rows
    assert sorted(seconds(rows, "e")) == [10.0, 15.0]


def test_rows_without_a_sane_time_are_set_aside(engine: Engine) -> None:
    task = compile_query("q", COUNT.format("'10 seconds'"), CATALOG).open(engine)
    out = task.step({"trades": trades((None, "a", 1), (1e12, "a", 1), (1, "a", 1))}, 0)
    assert out.poison == {"trades": 2}
    assert task.step({}, 10 * SECOND).rows["n"].to_pylist() == [1]


def test_event_times_are_valid_from_1900_to_before_2200(engine: Engine) -> None:
    last, first = MAX_EVENT_TIME_US, MIN_EVENT_TIME_US
    times = pa.array([first - 1, first, last - 1, last], pa.int64()).cast(SCHEMA.field("ts").type)
    rows = pa.table({"ts": times, "symbol": ["a"] * 4, "price": [1.0] * 4}, schema=SCHEMA)
    task = compile_query("q", COUNT.format("'10 seconds'"), CATALOG).open(engine)
    out = task.step({"trades": rows}, NO_WATERMARK_US)
    assert (out.poison, out.late) == ({"trades": 2}, {})
    ends = seconds(task.step({}, 1 << 60).rows, "e")
    assert sorted(ends) == [first / SECOND + 10, last / SECOND]


def test_a_saved_state_goes_on_where_it_was(engine: Engine) -> None:
    program = compile_query("q", COUNT.format("'10 seconds', '5 seconds'"), CATALOG)
    task = program.open(engine)
    task.step({"trades": trades((1, "a", 1), (7, "b", 1))}, 5 * SECOND)
    saved = task.save()
    assert task.save().segments == {}
    copy = program.open(engine)
    copy.load(saved.manifest, saved.segments.__getitem__)
    assert copy.next_due_us == task.next_due_us
    assert copy.step({}, 100 * SECOND).rows.equals(task.step({}, 100 * SECOND).rows)


def test_the_bytes_of_the_keys_are_the_bytes_of_the_state(engine: Engine) -> None:
    task = compile_query("q", COUNT.format("'10 seconds'"), CATALOG).open(engine)
    rows = [(i % 7, "hot" if i % 2 else f"s{i}", 1.0) for i in range(40)]
    task.step({"trades": trades(*rows)}, 0)
    hashes, sizes = task.key_bytes()
    assert sorted(hashes) == sorted(set(hash_keys(pa.array([s for _, s, _ in rows]))))
    assert 0.9 * task.state_bytes <= sizes.sum() <= task.state_bytes
    assert task.release(lambda found: np.isin(found, hashes)) is not None
    assert len(task.key_bytes()[0]) == 0


def test_a_program_travels(engine: Engine) -> None:
    program = compile_query("q", COUNT.format("'10 seconds'"), CATALOG)
    copy = pickle.loads(pickle.dumps(program))  # noqa: S301 - our own bytes
    task = copy.open(engine)
    task.step({"trades": trades((1, "a", 1))}, 0)
    assert task.step({}, 10 * SECOND).rows["n"].to_pylist() == [1]
