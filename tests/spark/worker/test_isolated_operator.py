"""Operators in a process of their own: whatever becomes of it, the worker's process goes on."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter as Bag
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support import evil_operators
from tests.support.evil_operators import DuePast
from tests.support.innocent import INNOCENT, ROWS, play
from tests.support.local_runtime import Local
from tests.support.operators import Counter, Held
from tests.support.poll import until
from tests.support.submissions import STREAMS, last_row

from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.spark.driver.submission import Submission
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.sql import Operator, isolated_operator, operator_path


def operator(kind: type[Operator], name: str = "evil", key: str | None = None) -> Submission:
    keys = None if key is None else (key,)
    return Submission(
        "operator", name, operator_path(kind), keys, False, None, ("trades",), isolate=True
    )


def children() -> set[int]:
    """The processes of operators that this process has."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        int(pid) for pid in found if "operator_server" in Path(f"/proc/{pid}/cmdline").read_text()
    }


def reasons_by_name(local: Local) -> dict[str, str]:
    quarantined = local.committer.checkpoint.head().quarantined
    return {uid.partition("@")[0]: reason for uid, reason in quarantined.items()}


def test_processes_that_die_or_hang_are_their_operators_alone(
    tmp_path: Path, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_operator, "MEMORY_SHARE", 0.0)
    monkeypatch.setattr(isolated_operator, "MIN_MEMORY_BYTES", 128 << 20)
    monkeypatch.setattr(BatchContext, "step_seconds", lambda *_: 3.0)
    kinds = (*evil_operators.DEADLY, *evil_operators.STUCK)
    evil = [operator(kind, kind.__name__) for kind in kinds]
    local = Local(tmp_path, STREAMS, [INNOCENT, *evil], workers=2)
    play(local)  # in this process: that it goes on is the first thing to be shown
    assert local.results("innocent") == expected
    reasons = reasons_by_name(local)
    assert set(reasons) == {kind.__name__ for kind in kinds}
    assert "signal 9" in reasons["KillsItself"]
    assert "exit code 0" in reasons["ExitsAtOnce"]
    assert "signal 11" in reasons["Crashes"]
    assert "MemoryError" in reasons["Leaks"]
    assert all("time limit" in reasons[kind.__name__] for kind in evil_operators.STUCK)
    assert not children()


def test_isolated_operators_fail_as_others_do(tmp_path: Path, expected: object) -> None:
    evil = [operator(kind, kind.__name__) for kind in (*evil_operators.FAILING, DuePast)]
    local = Local(tmp_path, STREAMS, [INNOCENT, *evil], workers=2)
    play(local)
    assert local.results("innocent") == expected
    reasons = reasons_by_name(local)
    assert set(reasons) == {kind.__name__ for kind in evil_operators.FAILING}
    assert all(reason.isprintable() and len(reason) < 1000 for reason in reasons.values())
    local.forget()
    assert not children()


@pytest.mark.parametrize("seed", [1, 2])
def test_its_state_is_saved_and_moved_exactly_once(tmp_path: Path, seed: int) -> None:
    """Beside the same operator in the worker's process: lost attempts, new processes, moves."""
    chance = random.Random(seed)  # noqa: S311
    inside = replace(operator(Counter, "inside", "symbol"), isolate=False)
    apart = operator(Counter, "apart", "symbol")
    local = Local(tmp_path, STREAMS, [inside, apart], workers=3, chance=chance)
    hashes = hash_keys(pa.array(["a", "b", "c", None], pa.string()))
    for rows in ROWS:
        owners = [chance.randrange(3) for _ in hashes]
        table = RoutingTable.from_entries(hashes, owners)
        local.committer.commands.request_plan(Plan(3, {}, {"inside": table, "apart": table}))
        local.batch({"trades": rows})
    local.batch({"trades": last_row()})
    assert local.committer.checkpoint.head().quarantined == {}
    assert local.results("apart") == local.results("inside")
    seen = Bag(symbol for rows in (*ROWS, last_row()) for symbol in rows["symbol"].to_pylist())
    last = Bag[str]()
    for symbol, count in local.results("apart"):
        last[symbol] = max(last[symbol], count)
    assert last == seen


def test_a_process_that_somebody_kills_is_not_blamed(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [operator(Held)], workers=1)
    folder = tmp_path / "held"
    folder.mkdir()
    held = ROWS[0].set_column(1, "symbol", pa.array([str(folder)] * len(ROWS[0])))

    def kill_once() -> None:
        until(lambda: any(folder.glob("pid-*")))
        (found,) = folder.glob("pid-*")
        os.kill(int(found.name.removeprefix("pid-")), signal.SIGKILL)
        (folder / "go").touch()

    killer = threading.Thread(target=kill_once)
    killer.start()
    local.batch({"trades": held})
    killer.join()
    local.batch({"trades": ROWS[1]})
    assert local.committer.checkpoint.head().quarantined == {}
    assert sorted(local.results("evil")) == [(40,), (80,)]
    assert len(list(folder.glob("pid-*"))) == 2


def test_its_cpu_time_counts_as_the_querys_load(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [operator(evil_operators.Computes)], workers=1)
    (report,) = local.batch({"trades": ROWS[0]})
    assert report.query_stats["evil@1"].cpu_seconds > 0.3
    assert report.cpu_seconds > 0.3


def test_the_process_starts_without_sql_engine_and_kernels() -> None:
    code = (
        "import sys, evenflow.sql.operator_server\nfrom evenflow.sql import Operator\n"
        "print(sorted({'duckdb', 'numba', 'pandas', 'pyspark', 'sqlglot'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]", "each import delays all batches of a worker"
