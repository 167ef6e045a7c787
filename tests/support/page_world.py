"""A run to look at: many workers and queries, a hot key that moves and is split, things to do.

`python -m tests.support.page_world 256 5000` serves it until Ctrl-C, with a batch a second.
"""

import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
from tests.support.service_world import FakeRun, Hosted, StreamSpec

from evenflow.model import KeyStats, Plan, QueryLoad, RoutingTable, Snapshot, Trigger, hash_keys
from evenflow.model.codes import Reason, VerdictCode
from evenflow.model.decision import BalanceMetrics, Decision, Outcome, Verdict
from evenflow.model.plan import Move
from evenflow.model.progress import BatchProgress
from evenflow.model.snapshot import imbalance
from evenflow.service import serve

KEYS = ("AAPL", "MSFT", "NVDA", "AMZN", "GOOG", "TSLA", "META", "ORCL")
MOVED_AT = 40
SQL = "SELECT symbol, window(ts, '10 seconds') AS w, avg(price) AS mean FROM trades GROUP BY 1, 2"


class PageRun(FakeRun):
    """A fake run whose batches look like those of a market; `step` adds the next."""

    def __init__(self, workers: int, queries: int, batches: int) -> None:
        super().__init__()
        rng = np.random.default_rng(5)
        self._rng, self._workers = rng, workers
        hashes = hash_keys(pa.array(KEYS))
        self._hashes = np.sort(hashes)
        self._names = tuple(KEYS[i] for i in np.argsort(hashes, kind="stable"))
        placed = {
            f"alert_{n:04d}": int(rng.integers(max(workers - 1, 1))) for n in range(queries - 1)
        }
        drained = frozenset({workers - 1}) if workers > 4 else frozenset()
        self._before = Plan(workers, placed, {"averages": RoutingTable()}, drained)
        moved = RoutingTable.from_entries(self._hashes[:1], [1])
        self._after = replace(self._before, tables={"averages": moved})
        self.plan = self._before
        self.queries = {
            name: Hosted(name, text=SQL, pin=3 if name == "alert_0003" else None) for name in placed
        }
        self.queries["averages"] = Hosted(
            "averages", key=("symbol",), text=SQL, kind="windowed", publish=True
        )
        self.streams = {
            "trades": StreamSpec(),
            "quotes": StreamSpec(),
            "averages": StreamSpec(derived=True),
        }
        self.late = {"alert_0001": 1_204}
        self.quarantined = {"alert_0002": "division by zero in `price / volume`; row left out"}
        self.checkpoint_uri, self.trigger_seconds = "file:///data/runs/market", 1.0
        self._next = 0
        self._start = time.time() - batches
        self._whole = self._whole_loads(placed)
        for _ in range(batches):
            self.step()

    def _whole_loads(self, placed: dict[str, int]) -> dict[str, QueryLoad]:
        weights = self._rng.zipf(1.6, len(placed)).clip(1, 200)
        found = {}
        for (name, worker), weight in zip(placed.items(), weights, strict=True):
            values = np.zeros(self._workers)
            values[worker] = 0.35 * weight * self._workers / float(weights.sum())
            rows = (values * 4_000).astype(int)
            found[name] = QueryLoad(("trades",), rows, rows // 9, values, values, values * 2e6)
        return found

    def step(self) -> None:
        """Add a batch, its decision and what Spark reports of it."""
        number, workers = self._next, self._workers
        self._next += 1
        at, tide = self._start + number, 1 + 0.35 * np.sin(number / 9)
        owner = 0 if number < MOVED_AT else 1
        cost = (
            tide
            * np.array([0.3, *np.full(len(KEYS) - 1, 0.03)])
            * self._rng.uniform(0.9, 1.1, len(KEYS))
        )
        rest = np.full(workers, 0.12) * tide * self._rng.uniform(0.8, 1.2, workers)
        rest[list(self.plan.drained)] = 0.0
        owners = ((np.arange(len(KEYS)) + owner) % max(workers - 1, 1)).astype(np.int32)
        stats = KeyStats(
            self._hashes, owners, cost, cost * 1e5, self._names, np.full(workers, 900), rest,
            rest * 1e5, np.zeros(workers), (cost * 1e5).astype(int),
        )  # fmt: skip
        load = rest + np.bincount(owners, cost, workers)
        rows = (load * 9_000).astype(int)
        averages = QueryLoad(("trades",), rows, rows // 40, load, load, load * 1e6, keys=stats)
        plan = self._before if number <= MOVED_AT else self._after
        self.plan = self._after if number >= MOVED_AT else self._before
        shipped = {"trades": rows * 60.0, "quotes": rows * 22.0}
        snapshot = Snapshot(
            number, at, 1.0, plan, self.plan, queries={**self._whole, "averages": averages},
            shipped_bytes=shipped, worker_cpu_seconds=load + 0.05,
        )  # fmt: skip
        self._snapshots = (*self._snapshots, snapshot)[-256:]
        self._decide(snapshot)
        seconds = 0.16 + float(load.max()) + float(self._rng.uniform(0.05, 0.12))
        backlog = int(max(0.0, self._rng.normal(900, 400)))
        self.progress = {
            **self.progress,
            number: BatchProgress(number, int(18_000 * tide), seconds, 0.16, backlog),
        }
        self.watermarks = {
            "trades": int((at - 2.5 - tide) * 1e6),
            "quotes": int((at - 9 * tide) * 1e6),
            "averages": int((at - 12.5) * 1e6),
        }

    def _decide(self, snapshot: Snapshot) -> None:
        loads, number = snapshot.worker_loads(), snapshot.batch
        found = BalanceMetrics(
            imbalance(loads), float(loads.max()), float(loads.mean()), 0.01, 0.1, 9e5
        )
        changes = number % MOVED_AT == 0 and number > 0
        moves = tuple(
            Move("averages", 0, 1, int(key))
            for key in self._hashes[: 1 if number == MOVED_AT else 3]
        )
        message = "one key has more than a worker's share"
        verdict = Verdict(VerdictCode.HEAVY_KEY, "averages", message, 1.3)
        decision = Decision(
            number,
            snapshot.at,
            Trigger.IMBALANCE if changes else Trigger.NONE,
            Reason.KEYS if changes else Reason.BALANCED,
            f"worker 0 has too much load; {len(moves)} keys move" if changes else "even enough",
            found,
        )
        if changes:
            decision = replace(
                decision,
                predicted=replace(found, imbalance=1.08),
                plan=self._after,
                moves=moves,
                moved_bytes=42_000.0,
                verdicts=(verdict,),
            )
        self.decisions = (*self.decisions, decision)[-256:]
        if number % MOVED_AT == 2 and number > 2:
            self.outcomes = (
                *self.outcomes,
                Outcome(number - 2, number, replace(found, imbalance=1.11), 42_000, 0.04, 1.3),
            )


def main() -> None:
    """Serve a run of the given size."""
    workers, queries = int(sys.argv[1]), int(sys.argv[2])
    port = int(sys.argv[3]) if len(sys.argv) > 3 else 8090
    run = PageRun(workers, queries, batches=130)
    server = serve(run, port=port)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    stop = threading.Event()
    try:
        while not stop.wait(1.0):
            run.step()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()
