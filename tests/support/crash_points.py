"""Every fault point that a crash test kills at, and how a flow in this process dies there."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, trades
from tests.support.submissions import any_plan, last_row

from evenflow.model import Plan

POINTS = (
    "worker.before_write",
    "worker.after_write",
    "driver.collected",
    "driver.plan",
    "driver.results",
    "driver.pulse",
    "driver.ledger",
)
_MODULES = ("driver.commands", "driver.committer", "worker.worker_batch")


class Killed(BaseException):
    """Nothing of ours may catch it, as nothing catches SIGKILL."""


def at_fault_points(patch: pytest.MonkeyPatch, call: Callable[[str], None]) -> None:
    """Call a function with the name of each fault point that is reached."""
    for module in _MODULES:
        patch.setattr(f"evenflow.spark.{module}.fault_point", call)


def survive(local: Local, rows: Mapping[str, pa.Table], plan: Plan | None) -> None:
    """Bring a batch to its end, however often everything dies in it."""
    number = local.committer.checkpoint.head().batch
    while local.committer.checkpoint.head().batch == number:
        if plan is not None:
            local.committer.commands.request_plan(plan)
        try:
            local.batch(rows)
        except Killed:
            local.reopen()


@dataclass
class Kills:
    """Kills at one fault point, or at any by chance, as long as some are `left`."""

    point: str | random.Random
    left: int = 0

    def __call__(self, name: str) -> None:
        here = self.point == name if isinstance(self.point, str) else self.point.random() < 0.15
        if self.left and here:
            self.left -= 1
            raise Killed


class Course:
    """Batches of trades, each with a plan that moves anything anywhere."""

    def __init__(self, seed: int, rows: int, batches: int) -> None:
        chance, rng = random.Random(seed), np.random.default_rng(seed)  # noqa: S311
        self.batches = [*cut(rng, trades(rng, rows), batches), last_row()]
        self.plans = [any_plan(chance, 3) for _ in self.batches]

    def play(self, local: Local, before_batch: Callable[[], None] = lambda: None) -> Local:
        for rows, plan in zip(self.batches, self.plans, strict=True):
            before_batch()
            survive(local, {"trades": rows}, plan)
        return local

    def calm(self, local: Local) -> Local:
        """Play it undisturbed, to the last window."""
        self.play(local).rest()
        return local
