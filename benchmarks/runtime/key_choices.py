"""Ways to spread a hot key of a windowed count: `python -m benchmarks.runtime.key_choices`.

The loop of `hot_streams` with other planners of keys: PKG, D-Choices, W-Choices, and `cover`, which
splits only what whole keys cannot even out. 8 workers, 40 batches, other hot keys from the middle
on; the others are Zipf over 10,000 keys.

median, worst  busiest over mean worker from the fifth batch of each half on
table          entries of the routing table at the end, of which `split` have several owners
merged         partial results sent to the homes of keys per batch, in kilobytes
moved          bytes that plans moved in the run, in kilobytes
equal          whether the results are those of one worker without plans
"""

from typing import Any

import numpy as np

from benchmarks.harness import Rows, print_row, run_parts
from benchmarks.runtime.hot_streams import BATCHES, CLASSES, WORKERS, batches, play
from evenflow.planning.controller import Balancing

PLANNERS = ("hash", "pkg", "d-choices", "w-choices", "cover")


def choices(skew: float) -> Rows:
    """Compare the planners on one stream."""
    aggregate = CLASSES["aggregate"]
    rows = list(batches(aggregate, "two", 10_000, skew, seed=1))
    calm, _ = play(aggregate, rows, 1, Balancing.off())
    return [_measure(name, skew, rows, calm.results("q")) for name in PLANNERS]


def _measure(name: str, skew: float, rows: list[Any], expected: Any) -> dict[str, Any]:
    flow, found = play(CLASSES["aggregate"], rows, WORKERS, Balancing(keys=name))
    balancer, half = flow.committer.balancer, BATCHES // 2
    settled = [*found[5:half], *found[half + 5 :]]
    moved_in = {d.batch + 1 for d in balancer.decisions if d.plan is not None}
    sent = [(s.batch in moved_in, sum(t.bytes for t in s.transfers)) for s in balancer.snapshots]
    table = balancer.snapshots[-1].plan.tables["q"]
    row = {
        "keys": name,
        "skew": skew,
        "median": float(np.median(settled)),
        "worst": max(settled),
        "table": len(table),
        "split": len(table.splits),
        "merged_kb": float(np.mean([size for moving, size in sent[5:] if not moving])) / 1e3,
        "moved_kb": sum(size for moving, size in sent if moving) / 1e3,
        "equal": flow.results("q") == expected,
    }
    print_row(row)
    return row


if __name__ == "__main__":
    run_parts({"zipf_0.85": lambda: choices(0.85), "zipf_1.2": lambda: choices(1.2)})
