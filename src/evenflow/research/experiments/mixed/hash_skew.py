"""Load skew under the hash alone: figure 7 (section V).

The loads of all workers, sorted and averaged over 50 intervals, in units of their mean. Without
balancing, swaps directed at one worker would accumulate; so each interval assigns the Zipf
frequencies to the keys at random, the limit of undirected swaps.
"""

from typing import TYPE_CHECKING

import numpy as np

from evenflow.model import hash_keys, jump_hash
from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import DEFAULTS, PAPER, SEEDS
from evenflow.research.key_workload import zipf_costs
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import (
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = (5, 10, 20, 40)
KEYS = (5_000, 10_000, 100_000, 1_000_000)


def _points(scale: Scale) -> list[Point]:
    cases: list[dict[str, int | str]] = [
        {"panel": "workers", "workers": workers, "keys": int(DEFAULTS["keys"])}
        for workers in WORKERS
    ]
    cases += [{"panel": "keys", "workers": int(DEFAULTS["workers"]), "keys": keys} for keys in KEYS]
    return [
        {**case, "skew": DEFAULTS["skew"], "intervals": 50, "seed": seed}
        for case in cases
        for seed in SEEDS[scale]
    ]


def _measure(point: Point) -> list[Row]:
    rng = np.random.default_rng(100 + int(point["seed"]))
    keys, workers = int(point["keys"]), int(point["workers"])
    home = jump_hash(hash_keys(np.arange(keys)), workers)
    total = np.zeros(workers)
    for _ in range(int(point["intervals"])):
        loads = np.bincount(home, weights=zipf_costs(keys, float(point["skew"]), rng))
        total += np.sort(loads) / loads.mean()
    return [
        {"percentile": 100 * (rank + 1) / workers, "load": load / int(point["intervals"])}
        for rank, load in enumerate(total)
    ]


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    for panel, (name, unit) in zip(
        axes, (("workers", "{:,} workers"), ("keys", "{:,} keys")), strict=True
    ):
        figures.draw_shaded_lines(
            panel,
            rows,
            "percentile",
            "load",
            name,
            unit.format,
            where=columns_equal(panel=name),
        )
        panel.set(xlabel="percentile of workers", ylabel="load of a worker, in mean loads")
        panel.set_ylim(bottom=0)
        panel.legend()
    axes[0].set_title(f"{DEFAULTS['keys']:,} keys")
    axes[1].set_title(f"{DEFAULTS['workers']} workers")
    return figure


def _max_over_min_load(rows: Rows, panel: str) -> dict[int, float]:
    """Return the load of the fullest worker over that of the emptiest."""
    spreads = group_spreads(rows, "load", [panel, "percentile"], columns_equal(panel=panel))
    values: dict[int, list[float]] = {}
    for (at, _), spread in spreads.items():
        values.setdefault(at, []).append(spread.mean)
    return {at: max(loads) / min(loads) for at, loads in sorted(values.items())}


def _claims(rows: Rows) -> list[Claim]:
    workers, keys = _max_over_min_load(rows, "workers"), _max_over_min_load(rows, "keys")
    rising, falling = list(workers.values()), list(keys.values())
    near = abs(workers[40] / 2.5 - 1) < 0.2
    few = keys[KEYS[0]] > 3
    return [
        make_claim(
            "Skewness grows with the number of workers",
            "fullest over emptiest worker: "
            + ", ".join(f"{format_number(value)} with {at}" for at, value in workers.items()),
            rising == sorted(rising),
        ),
        make_claim(
            "With 40 workers the fullest has almost 2.5 times the load of the emptiest",
            f"{format_number(workers[40])} times",
            near,
            "Of the same order: the paper's hash and its keys are not given.",
        ),
        make_claim(
            "More keys make the hash more even",
            "fullest over emptiest: "
            + ", ".join(f"{format_number(value)} with {at:,} keys" for at, value in keys.items()),
            falling == sorted(falling, reverse=True),
        ),
        make_claim(
            "With 5,000 keys the fullest worker has around 4 times the load of the emptiest",
            f"{format_number(keys[KEYS[0]])} times with {DEFAULTS['workers']} workers",
            few,
            "The largest of 5,000 Zipf keys is 5 % of the load and a worker of 15 "
            "has 7 % in the mean, so that one is near 2 means and none far below 0.7. It takes "
            "more workers; the paper does not say how many it had.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig7",
        paper=PAPER,
        title="Workload skewness under hashing",
        shows="how uneven the hash alone leaves workers, by workers and by keys",
        cost_note="10 s on 2 cores",
        points=_points,
        run=_measure,
        draw=_draw,
        claims=_claims,
    ),
)
