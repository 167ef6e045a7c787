"""What is recorded is what is read: whatever the values, the blocks, and the crashes between."""

import shutil
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.strategies import decisions, outcomes, snapshots

from evenflow.errors import DamagedFileError, InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyStats,
    Outcome,
    Plan,
    QueryLoad,
    Reason,
    RoutingTable,
    Snapshot,
    Transfer,
    Trigger,
    Verdict,
    VerdictCode,
)
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import HistoryWriter, read_history
from evenflow.storage.history.writer import COMPACTION_ORDER

BLOCK, GROUP = 4, 2


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
    history = HistoryWriter(FileStore(folder), block=BLOCK, group=GROUP)
    for batch in batches:
        snapshot = data.draw(snapshots(batch))
        choices = data.draw(st.lists(decisions(batch), max_size=1))
        results = data.draw(st.lists(outcomes(batch), max_size=2))
        if data.draw(st.booleans()):
            if data.draw(st.booleans()):
                history.close(batch)
            history.wait_for_compaction()
            history = HistoryWriter(FileStore(folder), block=BLOCK, group=GROUP)
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
    store = FileStore(str(tmp_path))
    history = HistoryWriter(store, retained=2 * BLOCK, block=BLOCK, group=GROUP)
    even = BalanceMetrics(1.0, 1.0, 1.0)
    for batch in range(4 * BLOCK + 3):
        decision = Decision(
            batch, 0.0, Trigger.NONE, Reason.BALANCED, "", even, plan=Plan(2, {"q": 1})
        )
        history.append(snapshot(batch), [decision])
    history.wait_for_compaction()
    assert len(files(tmp_path, "decisions")) == 4 + 1
    assert len(files(tmp_path, "batches")) == 2 * BLOCK // GROUP
    assert len(files(tmp_path, "recent")) == 1
    got, decided, _ = read_history(str(tmp_path))
    assert [s.batch for s in got] == list(range(2 * BLOCK + GROUP, 4 * BLOCK + 3))
    assert [d.batch for d in decided] == list(range(4 * BLOCK + 3))
    assert [s.batch for s in read_history(str(tmp_path), last=5)[0]] == list(
        range(4 * BLOCK - 2, 4 * BLOCK + 3)
    )
    history.close(4 * BLOCK + 3)
    assert files(tmp_path, "recent") == []
    rows = ds.dataset(tmp_path / "history" / "statistics").to_table()
    assert sorted(rows["batch"].to_pylist()) == [s.batch for s in got]


def test_a_crash_between_merging_and_deleting_doubles_nothing(tmp_path: Path) -> None:
    history = HistoryWriter(FileStore(str(tmp_path)), block=BLOCK, group=GROUP)
    table = RoutingTable.from_entries(np.array([7], dtype=np.uint64), [1])
    for batch in range(BLOCK - 1):
        history.append(snapshot(batch, Plan(2, {"q": batch % 2}, {"k": table})))
    history.close(BLOCK - 1)
    small = {path: path.read_bytes() for path in (tmp_path / "history" / "plans").iterdir()}
    history = HistoryWriter(FileStore(str(tmp_path)), block=BLOCK, group=GROUP)
    for batch in range(BLOCK - 1, BLOCK + 1):
        history.append(snapshot(batch))
    history.wait_for_compaction()
    merged = plain(read_history(str(tmp_path))[0])
    for path, content in small.items():
        path.write_bytes(content)
    assert plain(read_history(str(tmp_path))[0]) == merged
    HistoryWriter(FileStore(str(tmp_path)), block=BLOCK, group=GROUP)
    assert not any(path.exists() for path in small)
    assert plain(read_history(str(tmp_path))[0]) == merged


@pytest.mark.parametrize("written", range(len(COMPACTION_ORDER)))
def test_a_crash_while_batches_become_parquet_loses_and_doubles_nothing(
    tmp_path: Path, written: int
) -> None:
    """After the files of some kinds were written, and before any that they replace was deleted."""
    history, even = (
        HistoryWriter(FileStore(str(tmp_path)), block=8, group=4),
        BalanceMetrics(1.0, 1.0, 1.0),
    )
    for batch in range(3):
        decision = Decision(
            batch, 0.0, Trigger.NONE, Reason.BALANCED, "", even, plan=Plan(2, {"q": batch})
        )
        history.append(snapshot(batch), [decision])
    folder = tmp_path / "history"
    small = {path: path.read_bytes() for path in (folder / "recent").iterdir()}
    before = plain(read_history(str(tmp_path)))
    history.close(3)
    assert plain(read_history(str(tmp_path))) == before
    for kind in COMPACTION_ORDER[written:]:
        shutil.rmtree(folder / kind, ignore_errors=True)
    for path, content in small.items():
        path.write_bytes(content)
    assert plain(read_history(str(tmp_path))) == before
    again = HistoryWriter(FileStore(str(tmp_path)), block=8, group=4)
    assert plain(read_history(str(tmp_path))) == before
    again.append(snapshot(3))
    again.append(snapshot(4))
    again.wait_for_compaction()
    assert files(tmp_path, "recent") == ["000000000004-000000"]
    assert len(files(tmp_path, "batches")) == 1
    found, decided, _ = read_history(str(tmp_path))
    assert [one.batch for one in found] == [0, 1, 2, 3, 4]
    assert plain(decided) == before[1]


def test_what_was_not_committed_is_not_recorded_for_good(tmp_path: Path) -> None:
    history = HistoryWriter(FileStore(str(tmp_path)))
    for batch in (0, 1):
        history.append(snapshot(batch))
    history.close(1)  # the run ended before batch 1 was committed
    again = HistoryWriter(FileStore(str(tmp_path)))
    again.append(replace(snapshot(1), interval_seconds=7.0))
    again.close(2)
    history.close(2)  # once more, when another run has gone on
    assert [s.interval_seconds for s in read_history(str(tmp_path))[0]] == [1.0, 7.0]
    assert files(tmp_path, "recent") == []


def test_what_cannot_be_written_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = HistoryWriter(FileStore(str(tmp_path)), block=BLOCK, group=GROUP)
    write = FileStore.write

    def full(store: FileStore, name: str, *parts: Any, **wait: Any) -> None:
        if name.endswith(".parquet"):
            raise OSError("no space left")
        write(store, name, *parts, **wait)

    monkeypatch.setattr(FileStore, "write", full)
    for batch in range(GROUP + 1):
        history.append(snapshot(batch))
    with pytest.raises(OSError, match="no space"):
        history.close(GROUP + 1)
    assert [s.batch for s in read_history(str(tmp_path))[0]] == [0, 1, 2]


def test_a_plan_is_written_once_in_a_block(tmp_path: Path) -> None:
    history = HistoryWriter(FileStore(str(tmp_path)), block=BLOCK, group=GROUP)
    first, second = Plan(2, {"q": 0}), Plan(2, {"q": 1})
    for batch, plan in enumerate([first, first, second, first]):
        history.append(replace(snapshot(batch), plan=plan, next_plan=plan))
    history.close(BLOCK)
    (merged,) = files(tmp_path, "plans")
    assert pq.read_table(tmp_path / "history" / "plans" / merged).num_rows == 2


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no recorded history"):
        read_history(str(tmp_path))


def test_records_from_before_all_was_told_are_read(tmp_path: Path) -> None:
    one, many = np.ones(1), np.ones(1, dtype=np.int64)
    name = np.array([7], dtype=np.uint64)
    keys = KeyStats(name, np.zeros(1, np.int32), one, one, ("k",), many, one, one, one, many)
    plan = Plan(1, {}, {"q": RoutingTable.from_entries(name, [0])})
    load = QueryLoad(("s",), many, many, one, one, one, keys)
    balance, handed = BalanceMetrics(1.0, 1.0, 1.0), (Transfer("q", 0, 1, 7),)
    outcome = Outcome(0, 2, balance, 7, 0.0, 1.5, handed)
    decision = Decision(0, 0.0, Trigger.NONE, Reason.BALANCED, "", balance, arrived={"q": 0})
    snapshot = Snapshot(0, 0.0, 1.0, plan, plan, queries={"q": load}, transfers=handed)
    history = HistoryWriter(FileStore(str(tmp_path)))
    history.append(snapshot, [decision], [outcome])
    history.close(1)
    for kind, newer in (
        ("keys", ["fixed", "rows", "shared_cost", "split_by"]),
        ("statistics", ["split_streams"]),
        ("plans", ["splits"]),
        ("batches", ["handed"]),
        ("decisions", ["arrived"]),
        ("outcomes", ["duration_seconds", "handed"]),
    ):
        (path,) = (tmp_path / "history" / kind).iterdir()
        rows = pq.read_table(path).drop_columns(newer)
        path.unlink()
        pq.write_table(rows, path.with_name("000000000000-000000000000.parquet"))
    (found,), (decided,), (brought,) = read_history(str(tmp_path))
    assert brought == replace(outcome, duration_seconds=None, handed=())
    assert decided == replace(decision, arrived={})
    assert found.transfers == ()
    assert found.queries["q"].keys is not None
    assert found.queries["q"].keys.rest_fixed_cost.tolist() == [0.0]
    assert found.queries["q"].keys.rows[0] > 1000, "counts as known"
    assert found.queries["q"].keys.split_by == ("",)
    assert found.queries["q"].split_streams == ()
    assert found.plan.tables["q"].splits == ()


def test_codes_are_read_as_members_and_those_of_another_version_as_their_text(
    tmp_path: Path,
) -> None:
    even = BalanceMetrics(1.0, 1.0, 1.0)
    verdicts = (
        Verdict(VerdictCode.HEAVY_KEY, "q", "why"),
        Verdict(VerdictCode("from_the_future"), "q", "why"),
    )
    history = HistoryWriter(FileStore(str(tmp_path)))
    history.append(
        snapshot(0),
        [Decision(0, 0.0, Trigger.DRAIN, Reason("from_the_future"), "", even, verdicts=verdicts)],
    )
    (decision,) = read_history(str(tmp_path)).decisions
    assert decision.trigger is Trigger.DRAIN
    assert f"{decision.reason}" == "from_the_future"
    assert decision.verdicts[0].code is VerdictCode.HEAVY_KEY
    assert decision.verdicts == verdicts


@pytest.mark.parametrize("kind", ["recent", "statistics", "plans"])
def test_every_flipped_byte_of_the_history_is_found_and_named(tmp_path: Path, kind: str) -> None:
    history = HistoryWriter(FileStore(str(tmp_path)), block=BLOCK, group=GROUP)
    for batch in range(GROUP + 1):
        history.append(snapshot(batch))
    history.wait_for_compaction()
    (path,) = (tmp_path / "history" / kind).iterdir()
    content = path.read_bytes()
    for at in range(0, len(content), 61):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(DamagedFileError, match=f"{path.name} is damaged: .*or delete"):
            read_history(str(tmp_path))
