"""What even load brings where CPU is what is short: as many workers as cores."""

import statistics
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Rows, tell
from benchmarks.live.flow_runs import GAIN, Played, host, play, uneven, verdicts
from benchmarks.runtime.sides import session, write
from benchmarks.workloads import BEGIN, JOIN, SECOND, folder, trades, zipf
from evenflow import Balancing

CLOSE_JOIN = JOIN + " AND abs(a.price - b.price) < 0.001"


def cpu() -> Rows:
    """A self-join whose pairs keep two workers on two cores busy; turns in one session.

    Hardly any pair matches, so that results do not set the pace.
    """
    spark, batches, skip, turns = session(), 12, 6, 3
    span, found = 60 * SECOND, []
    for skew, rows in ((0.85, 200_000), (1.0, 150_000)):
        rng = np.random.default_rng(4)
        with folder() as where:
            write(
                where / "trades",
                (
                    trades(rng, BEGIN + at * span, span, zipf(rng, skew, 10_000, rows))
                    for at in range(batches)
                ),
            )
            sides: dict[str, list[Played]] = {"hash": [], "balanced": []}
            for turn in range(turns):
                for name, config in (("hash", Balancing.off()), ("balanced", Balancing())):
                    sides[name].append(
                        play(
                            spark,
                            where / f"{name}{turn}",
                            [where / "trades"],
                            partial(host, sql=CLOSE_JOIN, key="symbol"),
                            workers=2,
                            balancing=config,
                        )
                    )
        row: dict[str, Any] = {"skew": skew, "rows_per_batch": rows}
        for name, played in sides.items():
            spent = [
                statistics.median(s.interval_seconds for s in p.snapshots[skip:]) for p in played
            ]
            row[f"{name}_turns"] = [rows / seconds for seconds in spent]
            row[name] = statistics.median(row[f"{name}_turns"])
            row[f"{name}_uneven"] = statistics.median(uneven(p.snapshots[skip:]) for p in played)
        row["bound"] = statistics.median(verdicts(played)[-1] for played in sides["balanced"])
        # Of neighbours in time, for the machine is faster at one time than at another.
        both = zip(row["balanced_turns"], row["hash_turns"], strict=True)
        row["gain"] = statistics.median(even / hashed for even, hashed in both)
        row["gain_of_uneven"] = row["gain"] / row["hash_uneven"]
        row["goal_gain"] = row["gain_of_uneven"] >= GAIN
        tell(row)
        found.append(row)
    spark.stop()
    return found
