"""What live balancing brings on Spark: `python -m benchmarks.live [part ...]`.

spread      largest over mean load of a keyed query: hash only, balanced, before and after a shift
throughput  a keyed count whose rows cost time: hash only, balanced by the default bound and by half
            of it, two choices (PKG), ideal
cpu         a keyed self-join bound by CPU, as many workers as cores: hash only and balanced
bursts      40 whole queries that burst in and out of phase: balanced, largest load first, connected
arrivals    5,000 queries of 200 types that come and go: bytes shipped against dealing them out
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.balancing import COUNT, JOIN, folder
from benchmarks.common import Rows, main, tell
from benchmarks.runtime import BEGIN, SECOND, trades, zipf
from benchmarks.streaming import session, write
from evenflow import Balancing, Flow, Run
from evenflow.model import (
    Decision,
    LoadSeries,
    Snapshot,
    hash_keys,
    imbalance,
    jump,
    round_robin_bytes,
)
from evenflow.model.subscriptions import Subscriptions
from evenflow.model.traffic import shipped_bytes
from evenflow.planning import operators, queries
from evenflow.planning.queries.cost import traffic

WORKERS = 8


def reading(spark: SparkSession, path: Path) -> DataFrame:
    schema = spark.read.parquet(str(path)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(path))


class Played(NamedTuple):
    """The snapshots of the batches that had rows, and what was decided."""

    snapshots: Sequence[Snapshot]
    decisions: Sequence[Decision]


def play(
    spark: SparkSession,
    where: Path,
    sources: Sequence[Path],
    declare: Callable[[Flow], Any],
    *,
    workers: int = WORKERS,
    **start: Any,
) -> Played:
    """Run a flow over files to its end."""
    flow = Flow(spark, workers=workers, checkpoint=str(where))
    for source in sources:
        flow.source(source.name, reading(spark, source), time="ts", watermark="0 seconds")
    declare(flow)
    run = flow.start(available_now=True, **start)
    run.await_termination()
    if run.quarantined:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    fed = [s for s in run.snapshots if any(q.rows_in.any() for q in s.queries.values())]
    return Played(fed, run.decisions)


def host(flow: Flow, sql: str, key: str) -> None:
    flow.query("q", sql, key=key)


def uneven(snapshots: Sequence[Snapshot]) -> float:
    """Give the largest over the mean load of query q over some batches."""
    return imbalance(np.sum([s.queries["q"].load for s in snapshots], axis=0))


def heaviest_key(snapshots: Sequence[Snapshot]) -> float:
    """Give the load of the heaviest key over the mean load: no plan of whole keys is below it."""
    mean = float(np.sum([s.queries["q"].load.mean() for s in snapshots]))
    costs: dict[int, float] = {}
    for keys in (keys for s in snapshots if (keys := s.queries["q"].keys) is not None):
        for key, cost in zip(keys.hashes.tolist(), keys.cost.tolist(), strict=True):
            costs[key] = costs.get(key, 0.0) + cost
    return max(costs.values()) / mean


def verdicts(snapshots: Sequence[Snapshot], decisions: Sequence[Decision]) -> list[float]:
    """Give what the controller said at each border it cannot get below; 1.08 if it said nothing."""
    told = {
        d.batch: [v.reachable for v in d.verdicts if v.code == "heavy_key" and v.reachable]
        for d in decisions
    }
    return [max([1.08, *told.get(s.batch, ())]) for s in snapshots]


CLOSE_JOIN = JOIN + " AND abs(a.price - b.price) < 0.001"
NEAR_JOIN = JOIN.replace("20 SECONDS", "20 MILLISECONDS")
BATCHES, SHIFT = 18, 9


def spread() -> Rows:
    """Hash only against balanced, before and after other keys become hot."""
    found = []
    for master, cases in (
        ("local[8,4]", [("rows", COUNT, 40_000, 10 * SECOND, 1e-4)]),
        (
            "local[2,4]",
            [
                ("count", COUNT, 100_000, 10 * SECOND, 0.0),
                ("near_join", NEAR_JOIN, 40_000, 40 * SECOND, 0.0),
                ("join", JOIN, 40_000, 40 * SECOND, 0.0),
            ],
        ),
    ):
        spark = session(master=master)
        for query, sql, rows, span, cost in cases:
            for skew in (0.85, 1.0):
                for keys in (10_000, 100_000):
                    with folder() as where:
                        write(where / "trades", _shifting(skew, keys, rows, span))
                        row = {"query": query, "skew": skew, "keys": keys}
                        row |= _spread(spark, where, sql, cost)
                    tell(row)
                    found.append(row)
        spark.stop()
    return found


def _shifting(skew: float, keys: int, rows: int, span: int) -> Iterator[pa.Table]:
    """Make batches whose hot keys are others from batch SHIFT on."""
    rng = np.random.default_rng(1)
    other = rng.permutation(keys)
    for at in range(BATCHES):
        hot = zipf(rng, skew, keys, rows)
        yield trades(rng, BEGIN + at * span, span, hot if at < SHIFT else other[hot])


def _spread(spark: SparkSession, where: Path, sql: str, cost: float) -> dict[str, Any]:
    """Run a query twice over the same batches; judge from the fourth after each detection on."""
    hashed, (even, decisions) = (
        play(
            spark,
            where / name,
            [where / "trades"],
            partial(host, sql=sql, key="symbol"),
            balancing=config,
            emulated_cost=cost,
        )
        for name, config in (("hash", Balancing.off()), ("even", Balancing()))
    )
    bounds = verdicts(even, decisions)
    by_batch = [uneven([snapshot]) for snapshot in even]
    over = [found / bound for found, bound in zip(by_batch, bounds, strict=True)]
    row: dict[str, Any] = {}
    for phase, start, end in (("", 0, SHIFT), ("_after_shift", SHIFT, BATCHES)):
        settled = slice(end - 4 if start == 0 else start + 4, end)
        row |= {
            f"hash{phase}": uneven(hashed.snapshots[max(start, 3) : end]),
            f"balanced{phase}": uneven(even[settled]),
            f"heaviest_key{phase}": heaviest_key(even[settled]),
            f"over_bound{phase}": statistics.mean(over[settled]),
        }
    return row | {
        "by_batch": np.round(by_batch, 3).tolist(),
        "bounds": np.round(bounds, 3).tolist(),
        "reasons": [d.reason for d in decisions],
        "moves": [len(d.moves) for d in decisions],
    }


def parts_for(workers: int) -> np.ndarray:
    """Give a number for each worker that the hash sends there."""
    numbers = np.arange(1000)
    homes = jump(hash_keys(numbers), workers)
    return np.array([numbers[homes == worker][0] for worker in range(workers)])


def two_choices(keys: np.ndarray, workers: int) -> np.ndarray:
    """Partial key grouping: each row to the less loaded of its key's two workers so far."""
    hashes = hash_keys(keys)
    first, second = jump(hashes, workers), jump(hash_keys(hashes.view(np.int64)), workers)
    loads, chosen = [0] * workers, np.empty(len(keys), dtype=np.int64)
    for at, (one, two) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        to = one if loads[one] <= loads[two] else two
        loads[to] += 1
        chosen[at] = to
    return chosen


def throughput() -> Rows:
    """Rows that cost 0.5 ms each, so that workers and not Spark set the pace."""
    spark, found = session(master="local[8,4]"), []
    rows, batches, cost, skip = 60_000, 12, 5e-4, 7
    count = """SELECT window.start AS s, {} symbol, count(*) AS n FROM trades
        GROUP BY window(ts, '10 seconds'), {} symbol"""
    for skew in (0.85, 1.0):
        rng, parts = np.random.default_rng(1), parts_for(WORKERS)

        def made(at: int, rng: Any = rng, skew: float = skew, parts: Any = parts) -> pa.Table:
            hot = zipf(rng, skew, 10_000, rows)
            table = trades(rng, BEGIN + at * 10 * SECOND, 10 * SECOND, hot)
            table = table.append_column("even", pa.array(parts[np.arange(rows) % WORKERS]))
            return table.append_column("pkg", pa.array(parts[two_choices(hot, WORKERS)]))

        with folder() as where:
            write(where / "trades", (made(at) for at in range(batches)))
            row: dict[str, Any] = {"skew": skew}
            for name, key, config in (
                ("hash", "symbol", Balancing.off()),
                ("balanced", "symbol", Balancing()),
                ("strict", "symbol", Balancing(max_imbalance=0.04)),
                ("pkg", "pkg", Balancing.off()),
                ("ideal", "even", Balancing.off()),
            ):
                extra = "" if key == "symbol" else f"{key},"
                snapshots = play(
                    spark,
                    where / name,
                    [where / "trades"],
                    partial(host, sql=count.format(extra, extra), key=key),
                    balancing=config,
                    emulated_cost=cost,
                ).snapshots
                row[name] = rows / statistics.median(s.seconds for s in snapshots[skip:])
                row[f"{name}_uneven"] = uneven(snapshots[skip:])
        row["balanced_of_ideal"] = row["balanced"] / row["ideal"]
        row["strict_of_ideal"] = row["strict"] / row["ideal"]
        row["gain"] = row["balanced"] / row["hash"]
        row["gain_of_uneven"] = row["gain"] / row["hash_uneven"]
        tell(row)
        found.append(row)
    spark.stop()
    return found


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
            spent = [statistics.median(s.seconds for s in p.snapshots[skip:]) for p in played]
            row[f"{name}_turns"] = [rows / seconds for seconds in spent]
            row[name] = statistics.median(row[f"{name}_turns"])
            row[f"{name}_uneven"] = statistics.median(uneven(p.snapshots[skip:]) for p in played)
        row["bound"] = statistics.median(verdicts(*played)[-1] for played in sides["balanced"])
        # Of neighbours in time, for the machine is faster at one time than at another.
        both = zip(row["balanced_turns"], row["hash_turns"], strict=True)
        row["gain"] = statistics.median(even / hashed for even, hashed in both)
        row["gain_of_uneven"] = row["gain"] / row["hash_uneven"]
        tell(row)
        found.append(row)
    spark.stop()
    return found


def bursts() -> Rows:
    """Ten streams, half of them bursting when the others rest; four queries over each.

    A query costs the same in the mean whichever burst it is in. At rest a stream has a fifth of
    its rows, or none.
    """
    spark, found = session(master="local[8,4]"), []
    for rest in (100, 0):
        with folder() as where:
            found += _burst(spark, where, rest)
    spark.stop()
    return found


def _burst(spark: SparkSession, where: Path, rest: int) -> Rows:
    streams, each, batches, period, cost, skip, burst = 10, 4, 36, 6, 4e-4, 18, 500
    rng = np.random.default_rng(2)
    paths = [where / f"s{at}" for at in range(streams)]
    for at, path in enumerate(paths):
        late = (at % 2) * period // 2

        def made(batch: int, late: int = late) -> pa.Table:
            count = burst if (batch + late) % period < period // 2 else rest
            return trades(rng, BEGIN + batch * SECOND, SECOND, np.zeros(count, dtype=int))

        write(path, (made(batch) for batch in range(batches)))
    names = [f"q{at}" for at in range(streams * each)]
    order = rng.permutation(len(names))
    reads = {names[at]: paths[at // each].name for at in order}
    series = LoadSeries(tuple(reads), np.ones((len(names), 1)), np.ones(len(names), dtype=bool))
    largest = operators.plan(
        "llf-glb",
        operators.OperatorSnapshot(series, WORKERS),
        operators.OperatorConfig(capacity=10.0),
        np.random.default_rng(0),
    ).placement
    fixed = dict(zip(reads, largest.tolist(), strict=True))
    connected = replace(Balancing.off(), queries="leastcost")
    # Half of the 40 burst at a time: somebody has 3 of them, and 2 that rest, as there are 5 each.
    least = cost * (3 * burst + 2 * rest)
    sides: dict[str, dict[str, Any]] = {}
    for name, config, placement in (
        ("largest load first", Balancing.off(), fixed),
        ("connected", connected, {}),
        ("balanced", Balancing(), {}),
    ):

        def declare(flow: Flow, placement: dict[str, int] = placement) -> None:
            for query, stream in reads.items():
                sql = f"SELECT ts, qty FROM {stream} WHERE qty > 90"
                flow.query(query, sql, worker=placement.get(query))

        snapshots = play(
            spark, where / name, paths, declare, balancing=config, emulated_cost=cost
        ).snapshots[skip:]
        sides[name] = {
            "rest": rest,
            "placement": name,
            "max_load": float(np.mean([s.loads().max() for s in snapshots])),
            "least_max_load": least,
            "batch_seconds": statistics.median(s.seconds for s in snapshots),
            "shipped_kb": np.mean([shipped_bytes(s) for s in snapshots]) / 1000,
        }
    for side in sides.values():
        side["balanced_max_over_this"] = sides["balanced"]["max_load"] / side["max_load"]
        side["least_over_this"] = least / side["max_load"]
        tell(side)
    return list(sides.values())


def arrivals() -> Rows:
    """Queries over few of 40 streams; a thousand come at a time, then they come and go.

    First as in the paper: streams by Zipf's law, each query over two. Then harder: streams that
    are all as popular, queries over one to three, which differ in load.
    """
    spark = session(master="local[2,4]")
    rows = []
    for popularity in ("zipf", "even"):
        for least, most in ((2, 2), (1, 3)):
            with folder() as where:
                found = _arriving(spark, where, popularity, least, most)
            rows.append({"streams": popularity, "of_a_query": f"{least} to {most}", **found})
            tell(rows[-1])
    spark.stop()
    return rows


STRICT = Balancing(promote=False, repair="repair", max_imbalance=0.065, slack=0.04)


def _arriving(
    spark: SparkSession, where: Path, popularity: str, least: int, most: int
) -> dict[str, Any]:
    rng, streams, types, per_border = np.random.default_rng(3), 40, 200, 1000
    weights = 1.0 / np.arange(1, streams + 1) if popularity == "zipf" else np.ones(streams)
    share = weights / weights.sum()
    kinds = [
        sorted(rng.choice(streams, rng.integers(least, most + 1), replace=False, p=share).tolist())
        for _ in range(types)
    ]
    paths = [where / f"s{at}" for at in range(streams)]
    live: dict[str, int] = {}  # query -> type
    born = iter(range(5000))

    def feed(batch: int) -> None:
        for path in paths:
            rows = trades(rng, BEGIN + batch * SECOND, SECOND, np.zeros(200, dtype=int))
            path.mkdir(exist_ok=True)
            whole = path / f".{batch}"
            pq.write_table(rows, whole)
            whole.rename(path / f"{batch:05d}.parquet")

    def submit(to: Callable[..., Any]) -> None:
        for at in islice(born, per_border):
            live[f"q{at}"] = int(rng.integers(types))
            reads = kinds[live[f"q{at}"]]
            to(
                f"q{at}",
                " UNION ALL ".join(f"SELECT ts, qty FROM s{s} WHERE qty > 98" for s in reads),
            )

    feed(0)
    flow = Flow(spark, workers=WORKERS, checkpoint=str(where / "flow"))
    for path in paths:
        flow.source(path.name, reading(spark, path), time="ts", watermark="0 seconds")
    submit(flow.query)
    run = flow.start(trigger="0 seconds", balancing=STRICT)
    try:
        for batch in range(1, 9):
            submit(run.submit)
            for name in rng.choice(sorted(live), 100, replace=False).tolist():
                del live[name]
                run.cancel(name)
            feed(batch)
            _settled(run, batch)
    finally:
        run.stop()
    last = [s for s in run.snapshots if s.shipped][-3:]
    hosted = np.bincount(list(last[-1].plan.placement.values()), minlength=WORKERS)
    return {
        "queries": int(hosted.sum()),
        "submitted": 5000,
        "shipped_over_round_robin": sum(map(shipped_bytes, last))
        / sum(map(round_robin_bytes, last)),
        "best_known_over_round_robin": _best_known([kinds[kind] for kind in live.values()]),
        "load_max_over_mean": imbalance(np.sum([s.loads() for s in last], axis=0)),
        "load_bound": 1.05 + 10 * WORKERS / len(live),
        "queries_max_over_mean": float(hosted.max() / hosted.mean()),
        "moved": sum(len(decision.moves) for decision in run.decisions),
        "batch_seconds": statistics.median(s.seconds for s in last),
    }


def _best_known(reads: Sequence[Sequence[int]]) -> float:
    """Return the least traffic of a hundred offline plans, over that of dealing out in turn."""
    asked = Subscriptions.of(reads, loads=1.0 + np.array([len(read) for read in reads]))
    problem = queries.Problem.of(asked, WORKERS)
    plans = [
        queries.plan_queries(problem, "partition", rng)
        for rng in np.random.default_rng(0).spawn(100)
    ]
    dealt = np.arange(len(reads), dtype=np.int32) % WORKERS
    least = min(traffic(asked, plan.workers, WORKERS) for plan in plans)
    return least / traffic(asked, dealt, WORKERS)


def _settled(run: Run, batch: int) -> None:
    """Wait until the files of a round have been read and nothing more is due."""
    while run.is_active:
        if sum(1 for s in run.snapshots if s.shipped) > batch and not run.restless:
            return
        time.sleep(0.5)
    raise RuntimeError("the run has ended")


if __name__ == "__main__":
    main({f.__name__: f for f in (spread, throughput, cpu, bursts, arrivals)})
