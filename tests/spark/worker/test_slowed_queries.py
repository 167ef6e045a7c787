"""Slowed queries: whatever waits, moves and is lost on the way, no result changes."""

import random
from pathlib import Path

import numpy as np
import pytest
from tests.spark.worker import test_split_keys as splits
from tests.support import split_world
from tests.support.crash_points import Course, Kills, at_fault_points
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, trades
from tests.support.submissions import NAMES, any_plan, hosting_all, last_row

from evenflow.model import Snapshot
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.limiter import LimitDecision, Limiter
from evenflow.spark.driver.slowed_queries import Pace
from evenflow.spark.protocol.ledger import Entry


class AnyPace(Limiter):
    """Slows any queries by any amount, until it is told to stop."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance, self.is_over = random.Random(seed), False  # noqa: S311
        self.waited: set[str] = set()

    def decide(self, entry: Entry, batch: CompletedBatch, snapshot: Snapshot) -> LimitDecision:
        self.waited |= {uid.partition("@")[0] for uid in entry.waiting}
        if self.is_over:
            return LimitDecision()
        return LimitDecision(
            {
                uid: Pace(self.chance.choice([0, 1, 5, 20]), "by chance")
                for uid in sorted(batch.registry.by_uid)
                if self.chance.random() < 0.7
            }
        )


def slow_any(local: Local, seed: int) -> AnyPace:
    local.committer.limiter = limiter = AnyPace(seed)
    return limiter


@pytest.mark.parametrize("seed", range(3))
def test_slowed_queries_of_every_kind_give_the_same_results(tmp_path: Path, seed: int) -> None:
    rng, chance = np.random.default_rng(seed), random.Random(seed)  # noqa: S311
    batches = [*cut(rng, trades(rng, 150), 7), last_row()]
    calm = hosting_all(tmp_path / "calm", 1)
    wild = hosting_all(tmp_path / "wild", 1 + 2 * seed, chance)
    limiter = slow_any(wild, seed)
    for rows in batches:
        calm.batch({"trades": rows})
        if chance.random() < 0.4:
            wild.committer.commands.request_plan(any_plan(chance, wild.workers))
        wild.batch({"trades": rows})
        if chance.random() < 0.2:
            wild.reopen()
    limiter.is_over = True
    calm.rest()
    wild.rest()
    head = wild.committer.checkpoint.head()
    assert (head.quarantined, head.late, head.slowed) == ({}, {}, {})
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
        assert calm.results(name), f"{name} gave nothing: the test is empty"
    assert len(limiter.waited) >= len(NAMES) - 2, f"too few had to wait: {limiter.waited}"


@pytest.mark.parametrize("seed", range(3))
def test_split_keys_of_slowed_queries_give_the_same_results(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    batches = split_world.any_batches(np.random.default_rng(seed), 5)
    calm = splits.play(tmp_path / "calm", batches, 1, None)
    wild = split_world.host(tmp_path / "wild", 2 + seed, chance)
    limiter = slow_any(wild, seed)
    for rows in batches:
        if chance.random() < 0.7:
            present = wild.committer.commands.next_registry_and_plan()[1]
            wild.committer.commands.request_plan(splits.any_plan(chance, wild, present))
        wild.batch(rows)
    limiter.is_over = True
    wild.rest()
    assert not wild.committer.commands.refused
    for name in split_world.NAMES:
        assert wild.results(name) == calm.results(name), name


def test_twenty_crashes_while_queries_wait_and_move_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, kills = Course(seed=5, rows=120, batches=9), Kills(random.Random(5))  # noqa: S311
    at_fault_points(monkeypatch, kills)
    calm, wild = course.calm(hosting_all(tmp_path / "calm")), hosting_all(tmp_path / "wild")
    limiter, kills.left = slow_any(wild, 5), 20
    course.play(wild)
    assert not kills.left, f"{kills.left} crashes never came"
    limiter.is_over = True
    wild.rest()
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
    assert len(limiter.waited) >= len(NAMES) - 2
