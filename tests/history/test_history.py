"""What is recorded is what is read: whatever the values, the blocks, and the crashes between."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import decisions, outcomes, snapshots

from evenflow.errors import InputError
from evenflow.history import History, read_history
from evenflow.model import (
    Decision,
    Handed,
    Judgement,
    KeyStats,
    Outcome,
    Plan,
    QueryLoad,
    RoutingTable,
    Snapshot,
)
from evenflow.store import Store

BLOCK = 4


def plain(value: Any) -> Any:
    """Anything as what can be compared: values with arrays have no equality of their own."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, Plan):
        tables = {name: plain(table) for name, table in value.tables.items()}
        return value.workers, dict(value.placement), tables, value.drained
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return [(name, plain(item)) for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@settings(max_examples=12)
@given(st.data())
def test_what_is_recorded_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = str(tmp_path_factory.mktemp("history"))
    batches = sorted(data.draw(st.sets(st.integers(0, 3 * BLOCK), min_size=1, max_size=4)))
    seen, decided, found = [], [], []
    history = History(Store(folder), block=BLOCK)
    for batch in batches:
        snapshot = data.draw(snapshots(batch))
        choices = data.draw(st.lists(decisions(batch), max_size=1))
        results = data.draw(st.lists(outcomes(batch), max_size=2))
        if data.draw(st.booleans()):
            history = History(Store(folder), block=BLOCK)
        if data.draw(st.booleans()):  # an attempt that does not count
            history.append(data.draw(snapshots(batch)), data.draw(st.lists(decisions(batch))))
        history.append(snapshot, choices, results)
        seen.append(snapshot)
        decided += choices
        found += results
    got = read_history(folder)
    assert plain(got[0]) == plain(seen)
    assert plain(got[1]) == plain(decided)
    assert got[2] == found


def snapshot(batch: int, plan: Plan | None = None) -> Snapshot:
    zeros = np.zeros(2)
    load = QueryLoad(("s",), [batch, 0], zeros, zeros, [batch / 8, 0.0], zeros)  # type: ignore[arg-type]
    plan = plan or Plan(2, {"q": 0})
    return Snapshot(batch, float(batch), 1.0, plan, plan, queries={"q": load})


def files(folder: Path, kind: str) -> list[str]:
    return sorted(path.name for path in (folder / "history" / kind).iterdir())


def test_blocks_are_merged_and_old_ones_go(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    history = History(store, kept=2 * BLOCK, block=BLOCK)
    even = Judgement(1.0, 1.0, 1.0)
    for batch in range(4 * BLOCK + 3):
        decision = Decision(batch, 0.0, "none", "balanced", "", even, plan=Plan(2, {"q": 1}))
        history.append(snapshot(batch), [decision])
    assert len(files(tmp_path, "batches")) == 2 + 3
    got, decided, _ = read_history(str(tmp_path))
    assert [s.batch for s in got] == list(range(2 * BLOCK, 4 * BLOCK + 3))
    assert [d.batch for d in decided] == list(range(4 * BLOCK + 3))
    assert [s.batch for s in read_history(str(tmp_path), last=5)[0]] == list(
        range(4 * BLOCK - 2, 4 * BLOCK + 3)
    )
    rows = ds.dataset(tmp_path / "history" / "statistics").to_table()
    assert sorted(rows["batch"].to_pylist()) == [s.batch for s in got]


def test_a_crash_between_merging_and_deleting_doubles_nothing(tmp_path: Path) -> None:
    history = History(Store(str(tmp_path)), block=BLOCK)
    table = RoutingTable.of(np.array([7], dtype=np.uint64), [1])
    for batch in range(BLOCK):
        history.append(snapshot(batch, Plan(2, {"q": batch % 2}, {"k": table})))
    small = {path: path.read_bytes() for path in (tmp_path / "history").rglob("*.parquet")}
    history.append(snapshot(BLOCK))
    merged = plain(read_history(str(tmp_path))[0])
    for path, content in small.items():
        path.write_bytes(content)
    assert plain(read_history(str(tmp_path))[0]) == merged
    History(Store(str(tmp_path)), block=BLOCK)
    assert not any(path.exists() for path in small)
    assert plain(read_history(str(tmp_path))[0]) == merged


def test_a_plan_is_written_once_in_a_block(tmp_path: Path) -> None:
    history = History(Store(str(tmp_path)), block=BLOCK)
    first, second = Plan(2, {"q": 0}), Plan(2, {"q": 1})
    for batch, plan in enumerate([first, first, second, first]):
        history.append(replace(snapshot(batch), plan=plan, following=plan))
    assert [name[:12] for name in files(tmp_path, "plans")] == ["000000000000", "000000000002"]


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no recorded history"):
        read_history(str(tmp_path))


def test_records_from_before_all_was_told_are_read(tmp_path: Path) -> None:
    one, many = np.ones(1), np.ones(1, dtype=np.int64)
    name = np.array([7], dtype=np.uint64)
    keys = KeyStats(name, np.zeros(1, np.int32), one, one, ("k",), many, one, one, one, many)
    plan = Plan(1, {}, {"q": RoutingTable.of(name, [0])})
    load = QueryLoad(("s",), many, many, one, one, one, keys)
    balance, handed = Judgement(1.0, 1.0, 1.0), (Handed("q", 0, 1, 7),)
    outcome = Outcome(0, 2, balance, 7, 0.0, 1.5, handed)
    decision = Decision(0, 0.0, "none", "balanced", "", balance, arrived={"q": 0})
    snapshot = Snapshot(0, 0.0, 1.0, plan, plan, queries={"q": load}, handed=handed)
    History(Store(str(tmp_path))).append(snapshot, [decision], [outcome])
    for kind, newer in (
        ("keys", ["fixed", "rows"]),
        ("batches", ["handed"]),
        ("decisions", ["arrived"]),
        ("outcomes", ["duration_seconds", "handed"]),
    ):
        (path,) = (tmp_path / "history" / kind).iterdir()
        pq.write_table(pq.read_table(path).drop_columns(newer), path)
    (found,), (decided,), (brought,) = read_history(str(tmp_path))
    assert brought == replace(outcome, duration_seconds=None, handed=())
    assert decided == replace(decision, arrived={})
    assert found.handed == ()
    assert found.queries["q"].keys is not None
    assert found.queries["q"].keys.rest_fixed.tolist() == [0.0]
    assert found.queries["q"].keys.rows[0] > 1000, "counts as known"
