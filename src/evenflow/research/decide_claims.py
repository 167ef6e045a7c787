"""Decide claims: one that other seeds could turn is not decided.

The seeds of an experiment are drawn again with replacement, and its claims are evaluated on each
such sample: a bootstrap. A claim is decided if its verdict is the same in at least 95 % of the
samples, which is to say that the interval of what it compares excludes the threshold. With two or
three seeds all samples are tried, and all must agree; with one seed nothing is decided.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Bools
from evenflow.research.experiment import VERDICTS, Claim, Experiment
from evenflow.research.points import Rows

MAX_SAMPLES = 40
AGREEMENT = 0.95
SEED = "seed"


def decide_claims(experiment: Experiment, rows: Rows) -> tuple[Claim, ...]:
    """Return the claims with the number of seeds behind them, and whether they are decided."""
    claims = tuple(experiment.claims(rows))
    if experiment.exact or SEED not in rows.column_names:
        return claims
    seeds = sorted(set(rows[SEED].to_pylist()))
    verdicts = np.array([
        [claim.holds for claim in experiment.claims(_sample(rows, drawn))]
        for drawn in _draw_samples(seeds)
    ])  # fmt: skip
    return tuple(
        _decide(claim, len(seeds), verdicts[:, at] if len(seeds) > 1 else np.zeros(0, dtype=bool))
        for at, claim in enumerate(claims)
    )


def _decide(claim: Claim, seeds: int, verdicts: Bools) -> Claim:
    if not len(verdicts):
        return replace(claim, seeds=seeds, decided=False, why="One seed has no interval.")
    agreeing = int((verdicts == claim.holds).sum())
    if agreeing >= AGREEMENT * len(verdicts):
        return replace(claim, seeds=seeds)
    why = f"It holds in {int(verdicts.sum())} of {len(verdicts)} samples of {seeds} seeds."
    return replace(claim, seeds=seeds, decided=False, why=f"{why} {claim.why}".strip())


def _draw_samples(seeds: Sequence[int]) -> list[tuple[int, ...]]:
    """Return samples of as many seeds, in any order.

    >>> _draw_samples([0, 1])
    [(0, 0), (0, 1), (1, 1)]
    """
    if len(seeds) <= 3:
        return list(combinations_with_replacement(seeds, len(seeds)))
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.array(seeds), (MAX_SAMPLES, len(seeds)))
    return [tuple(sample.tolist()) for sample in drawn]


def _sample(rows: Rows, drawn: tuple[int, ...]) -> Rows:
    """Return the rows of the seeds drawn, numbered anew: a seed drawn twice counts as two."""
    at = rows.column_names.index(SEED)
    parts = []
    for number, seed in enumerate(drawn):
        part = rows.filter(pc.equal(rows[SEED], seed))
        parts.append(part.set_column(at, SEED, pa.array([number] * len(part), rows[SEED].type)))
    return pa.concat_tables(parts)


def count_verdicts(claims: Sequence[Claim]) -> dict[str, int]:
    """Return how many claims have each verdict."""
    return {name: sum(claim.verdict == name for claim in claims) for name in VERDICTS}
