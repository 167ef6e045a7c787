"""What hypothesis draws from: small problems with ties, idle keys, heavy keys and empty workers."""

import numpy as np
from hypothesis import strategies as st

from evenflow.model import KeyLoads
from evenflow.planning.keys import KeyConfig

costs = st.one_of(st.integers(0, 20), st.sampled_from([0, 1, 1, 2, 50, 200])).map(float)


@st.composite
def key_loads(draw: st.DrawFn, max_keys: int = 40, max_workers: int = 6) -> KeyLoads:
    workers = draw(st.integers(1, max_workers))
    count = draw(st.integers(1, max_keys))
    column = st.lists(costs, min_size=count, max_size=count)
    at = st.lists(st.integers(0, workers - 1), min_size=count, max_size=count)
    home = draw(at)
    away = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    elsewhere = draw(at)
    owner = [
        there if gone else here for here, there, gone in zip(home, elsewhere, away, strict=True)
    ]
    return KeyLoads.of(
        np.array(draw(column)), np.array(draw(column)), np.array(home), np.array(owner), workers
    )


key_configs = st.builds(
    KeyConfig,
    max_imbalance=st.sampled_from([0.0, 0.08, 0.3, 1.0]),
    max_table=st.integers(0, 40),
    beta=st.sampled_from([0.5, 1.0, 1.5, 2.0]),
)
