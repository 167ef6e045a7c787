"""Whatever is hosted, slowed, moved, quarantined and killed beside them, innocents lose no row.

A machine takes random steps on a flow of three workers: batches with late and wrong rows, queries
and operators that fail, moves and splits, slowing, resuming, crashes. Beside it a calm flow of one
worker gets the same good rows in the same batches. In the end both have the same results.

`EXAMPLES=200` in the environment takes many more steps.
"""

import os
import random
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.support import evil_operators
from tests.support.crash_points import Killed, at_fault_points, survive
from tests.support.local_runtime import Local, combine_always
from tests.support.spark_harness import SECOND, shifted, trades
from tests.support.submissions import STREAMS, SYMBOLS, any_splits, last_row
from tests.support.submissions import SUBMISSIONS as EVERY

from evenflow.model import Plan, RoutingTable, Snapshot, hash_keys
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.limiter import LimitDecision, Limiter
from evenflow.spark.driver.pending_state import CancelQuery, ResumeQuery
from evenflow.spark.driver.slowed_queries import Pace
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.ledger import Entry
from evenflow.sql import operator_path

NAMES = ("dear", "sums", "pairs", "wide", "dearest")
INNOCENT = [each for each in EVERY if each.name in NAMES]
WORKERS, DAY_US = 3, 86_400 * SECOND
COUNTS = """SELECT window.start AS s, symbol, count(*) AS n, sum(10 div venue) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""
EVIL = [
    Submission("query", "", "SELECT ts, CAST(symbol AS INT) AS x FROM trades"),
    Submission("query", "", COUNTS),
    Submission("query", "", COUNTS, ("symbol",)),
    *(
        Submission("operator", "", operator_path(kind), None, False, None, ("trades",))
        for kind in (
            evil_operators.Counted,
            evil_operators.ExitsOnStep,
            evil_operators.DueHuge,
            evil_operators.DuePast,
            evil_operators.OtherColumns,
        )
    ),
]


class ChosenPace(Limiter):
    """Slows some queries by any amount, and quarantines some."""

    def __init__(self) -> None:
        super().__init__()
        self.paces: dict[str, float] = {}
        self.to_quarantine: set[str] = set()

    def decide(self, entry: Entry, batch: CompletedBatch, snapshot: Snapshot) -> LimitDecision:
        queries = batch.registry.queries
        paces = {queries[n].uid: Pace(rows, "by chance") for n, rows in self.paces.items()
                 if n in queries}  # fmt: skip
        stopped = {queries[n].uid: "too much" for n in self.to_quarantine & queries.keys()}
        self.to_quarantine = set()
        failed = entry.quarantined.keys() | {u for r in batch.reports for u in r.failed}
        return LimitDecision(paces, {u: why for u, why in stopped.items() if u not in failed})


def with_row(rows: pa.Table, **values: object) -> pa.Table:
    """Add a copy of the first row with other values."""
    row = {**rows.slice(0, 1).to_pylist()[0], **values}
    return pa.concat_tables([rows, pa.Table.from_pylist([row], rows.schema)])


class Neighbours(RuleBasedStateMachine):
    """Evil queries beside innocent ones."""

    @initialize(seed=st.integers(0, 2**32 - 1), slow_all=st.booleans(), combine=st.booleans())
    def host(self, seed: int, slow_all: bool, combine: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.chance, self.slow_all = random.Random(seed), slow_all  # noqa: S311
        self.limiter, self.patch = ChosenPace(), pytest.MonkeyPatch()
        self.is_deadly, self.kills = False, 0
        at_fault_points(self.patch, self.maybe_kill)
        combine_always(self.patch)
        self.calm = Local(self.folder / "calm", STREAMS, INNOCENT, workers=1, max_ahead_us=DAY_US)
        self.wild = Local(
            self.folder / "wild", STREAMS, INNOCENT, workers=WORKERS, max_ahead_us=DAY_US,
            chance=self.chance, limiter=self.limiter,
        )  # fmt: skip
        if combine:
            self.wild.combine_rows()
        self.evil = self.fed = 0

    def maybe_kill(self, _: str) -> None:
        if self.is_deadly and self.kills and self.chance.random() < 0.2:
            self.kills -= 1
            raise Killed

    def hosted(self) -> list[str]:
        """The evil queries."""
        return sorted(self.wild.committer.commands.next_registry().queries.keys() - set(NAMES))

    def quarantined(self) -> list[str]:
        head = self.wild.committer.checkpoint.head()
        found = {uid.partition("@")[0] for uid in head.quarantined}
        return [name for name in self.hosted() if name in found]

    def both(self, good: pa.Table | None, bad: pa.Table | None = None) -> None:
        """Run one batch of each flow; they see the same rows that count."""
        rows = good if bad is None else bad
        calm, wild = ({"trades": each} if each is not None else {} for each in (good, rows))
        self.calm.batch(calm)
        self.is_deadly = True
        survive(self.wild, wild, None)
        self.is_deadly, self.kills = False, 0

    @rule(kind=st.sampled_from(["good", "none", "late", "venue", "null", "ahead", "past"]))
    def batch(self, kind: str) -> None:
        if kind == "none":
            return self.both(None)
        seed = self.chance.randrange(2**32)
        rows = shifted(trades(np.random.default_rng(seed), 25, span_s=8, late_s=4), 8 * self.fed)
        self.fed += 1
        if kind == "late" and not self.slow_all:  # a slowed query sees later batches: fewer late
            rows = pa.concat_tables([rows, shifted(rows.slice(0, 5), -60)])
        if kind == "venue":  # makes divisions fail
            rows = with_row(rows, venue=0)
        bad = with_row(rows, ts=None) if kind == "null" else None
        if kind in ("ahead", "past"):
            days = 2 if kind == "ahead" else -130 * 365
            bad = pa.concat_tables([rows, shifted(rows.slice(0, 1), days * DAY_US // SECOND)])
        return self.both(rows, bad)

    @precondition(lambda self: len(self.hosted()) < 4)
    @rule(kind=st.sampled_from(EVIL))
    def submit(self, kind: Submission) -> None:
        self.evil += 1
        named = Submission(kind.form, f"evil{self.evil}", kind.text, kind.key, streams=kind.streams)
        self.wild.committer.commands.submit(named)

    @precondition(lambda self: self.hosted())
    @rule()
    def cancel(self) -> None:
        self.wild.committer.commands.submit(CancelQuery(self.chance.choice(self.hosted())))

    @precondition(lambda self: self.quarantined())
    @rule()
    def resume(self) -> None:
        self.wild.committer.commands.submit(ResumeQuery(self.chance.choice(self.quarantined())))
        self.both(None)

    @precondition(lambda self: self.hosted())
    @rule()
    def quarantine(self) -> None:
        self.limiter.to_quarantine.add(self.chance.choice(self.hosted()))

    @rule(rows=st.sampled_from([0, 1, 5, 20]))
    def slow(self, rows: int) -> None:
        names = [*self.hosted(), *(NAMES if self.slow_all else ())]
        if names:
            self.limiter.paces[self.chance.choice(names)] = rows

    @rule()
    def catch_up(self) -> None:
        self.limiter.paces.clear()

    @rule()
    def move(self) -> None:
        chance, active = self.chance, list(range(WORKERS))
        present = self.wild.committer.commands.next_registry_and_plan()[1]
        hashes = hash_keys(pa.array(SYMBOLS, pa.string()))
        tables = {
            name: RoutingTable.from_entries(hashes, [chance.choice(active) for _ in SYMBOLS])
            for name in present.tables
        }
        tables |= {
            name: tables[name].with_splits(any_splits(chance, active, name))
            for name in NAMES
            if name in tables
        }
        placement = {name: chance.choice(active) for name in present.placement}
        self.wild.committer.commands.request_plan(Plan(WORKERS, placement, tables))

    @rule()
    def restart(self) -> None:
        self.wild.reopen()

    @rule(kills=st.integers(1, 3))
    def kill(self, kills: int) -> None:
        self.kills = kills

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.check()
        finally:
            self.patch.undo()
            self.calm.committer.checkpoint.close()
            self.wild.committer.checkpoint.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def check(self) -> None:
        self.limiter.paces.clear()
        self.both(last_row())
        self.calm.rest()
        self.wild.rest()
        head = self.wild.committer.checkpoint.head()
        hosted = self.wild.committer.checkpoint.registry().queries
        innocent = {hosted[name].uid for name in NAMES}
        assert not innocent & head.quarantined.keys()
        assert not innocent & head.slowed.keys()
        for name in NAMES:
            assert self.wild.results(name) == self.calm.results(name), name


Neighbours.TestCase.settings = settings(
    max_examples=int(os.environ.get("EXAMPLES", "6")),
    stateful_step_count=20,
    deadline=None,
    derandomize="EXAMPLES" not in os.environ,
    phases=[Phase.generate],  # shrinking takes minutes, and what failed is printed anyway
    suppress_health_check=list(HealthCheck),
)
test_innocents_lose_no_row = Neighbours.TestCase
