"""Killed at any step while owners of a split key come and go, a run gives the same results."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.support.crash_points import POINTS, Killed, at_fault_points, survive
from tests.support.local_runtime import Local
from tests.support.split_world import HASHES, Rows, any_batches, host

from evenflow.model import KeySplit, Plan, RoutingTable
from evenflow.spark.protocol.ledger import Ledger
from evenflow.storage.file_store import FileStore

NAMES = ("counts", "self", "pairs", "joined", "alarms", "sessions")
WORKERS = 4
EVERY_WORKER = ("worker.before_write", "worker.after_write")
OWNERS = [
    (0, 1),  # the first copy
    (0, 1, 2),  # another owner
    (2, 0, 1),  # the home moves to another owner
    (2, 3),  # two owners go, one comes
    (3,),  # back to one worker, which was not the home
    (0, 1, 2, 3),  # all owners, none of them the one before
    (1, 2),  # the home goes
    (2,),  # merged at home
]


def plan_of(owners: tuple[int, ...]) -> Plan:
    """Share the hot key and NULL among the owners."""
    hashes = np.array([HASHES["hot"], HASHES[None]], dtype=np.uint64)
    table = RoutingTable.from_entries(hashes, [owners[0]] * len(hashes))
    if len(owners) > 1:
        table = table.with_splits(KeySplit(int(key), owners, "left") for key in hashes)
    return Plan(WORKERS, {}, dict.fromkeys(NAMES, table))


def batches() -> list[tuple[Rows, Plan | None]]:
    """Return rows and what is asked for: in every second batch a plan, so that all are followed."""
    rows = any_batches(np.random.default_rng(2), 2 * len(OWNERS))
    asked: list[Plan | None] = []
    for owners in OWNERS:
        asked += [plan_of(owners), None]
    return list(zip(rows, [*asked, None], strict=True))


def play(folder: Path) -> Local:
    local = host(folder, WORKERS, names=NAMES)
    for rows, plan in batches():
        survive(local, rows, plan)
    while local.committer.has_pending_work():
        survive(local, {}, None)
    assert local.committer.checkpoint.head().quarantined == {}
    assert not local.committer.commands.refused
    return local


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Local:
    return play(tmp_path_factory.mktemp("calm"))


@pytest.mark.parametrize("point", [*POINTS, "worker.handed_off"])
def test_a_kill_at_each_step_of_a_copy_changes_no_result(
    tmp_path: Path, calm: Local, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The driver and all processes die at the point: in each batch once, each worker in turn."""
    ledger = Ledger(FileStore(str(tmp_path)))
    killed_in, reached = set[int](), Counter[int]()

    def maybe(name: str) -> None:
        if name != point or (entry := ledger.last_entry()) is None or entry.batch in killed_in:
            return
        reached[entry.batch] += 1
        in_turn = entry.batch % WORKERS if point in EVERY_WORKER else 0
        if reached[entry.batch] > in_turn:
            killed_in.add(entry.batch)
            raise Killed

    at_fault_points(monkeypatch, maybe)
    wild = play(tmp_path)
    assert len(killed_in) >= len(OWNERS), "a kill for each change of owners"
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
        assert calm.results(name), f"{name} gave nothing: the test is empty"
