"""Operator workloads for the tests of this folder."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from evenflow.model import LoadSeries
from evenflow.model.arrays import Floats
from evenflow.planning.operators import NOWHERE, OperatorSnapshot
from evenflow.planning.operators.load_statistics import centred
from evenflow.planning.operators.worker_lists import OperatorRows


def bursts(operators: int, samples: int, seed: int) -> Floats:
    """Loads that alternate between high and low with different offsets, and some noise."""
    rng = np.random.default_rng(seed)
    offset = rng.integers(0, samples, size=operators)[:, None]
    high = (np.arange(samples) + offset) % samples < samples / 2
    loads: Floats = np.where(high, 1.6, 0.4) * rng.uniform(0.02, 0.2, size=operators)[:, None]
    return loads * rng.uniform(0.9, 1.1, size=loads.shape)


def snapshot(
    samples: Floats,
    workers: int,
    placement: ArrayLike | None = None,
    pinned: tuple[int, ...] = (),
) -> OperatorSnapshot:
    movable = np.ones(len(samples), dtype=bool)
    movable[list(pinned)] = False
    names = tuple(f"o{o}" for o in range(len(samples)))
    running = np.full(len(samples), NOWHERE) if placement is None else placement
    where = np.asarray(running, dtype=np.int32)
    return OperatorSnapshot(LoadSeries(names, samples, movable), workers, where)


def operator_rows(given: OperatorSnapshot) -> OperatorRows:
    """Return the rows that the correlation kernels read, in units of a capacity of 1."""
    return OperatorRows(centred(given.samples), given.load, given.series.movable.copy(), given.load)


@st.composite
def snapshots(
    draw: st.DrawFn, max_operators: int = 16, max_workers: int = 5, placed: bool = True
) -> OperatorSnapshot:
    """Small snapshots: idle, constant and equal series, single samples, pinned operators."""
    operators = draw(st.integers(1, max_operators))
    workers = draw(st.integers(1, max_workers))
    samples = bursts(operators, draw(st.integers(1, 8)), draw(st.integers(0, 2**32 - 1)))
    for o in range(operators):
        kind = draw(st.sampled_from(("burst", "burst", "burst", "idle", "constant", "twin")))
        if kind == "idle":
            samples[o] = 0.0
        elif kind == "constant":
            samples[o] = samples[o, 0]
        elif kind == "twin":
            samples[o] = samples[0]
    pinned = draw(st.sets(st.integers(0, operators - 1), max_size=2)) if placed else set()
    where = st.lists(st.integers(0, workers - 1), min_size=operators, max_size=operators)
    placement = np.array(draw(where), dtype=np.int32) if placed else None
    return snapshot(samples, workers, placement, tuple(pinned))
