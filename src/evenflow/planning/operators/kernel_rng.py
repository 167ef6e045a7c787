"""Random numbers inside kernels: xorshift64* (Marsaglia 2003, Vigna 2016), one word of state.

Numba keeps a generator of its own per process; planners must not touch it, since the same seed
has to give the same plan whatever ran before.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Hashes

_MULTIPLIER = np.uint64(2685821657736338717)


def seed_state(rng: np.random.Generator) -> Hashes:
    """Return a state drawn from a generator; never zero, where xorshift would stay for ever."""
    return rng.integers(1, 2**63, size=1, dtype=np.uint64)


@kernel
def next_bits(state: Hashes) -> np.uint64:
    """Draw 64 bits."""
    word: np.uint64 = state[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    state[0] = word
    return word * _MULTIPLIER


@kernel
def random_below(state: Hashes, bound: int) -> int:
    """Draw an integer in 0..bound-1 (bound below 2^32)."""
    word = ((next_bits(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)
    return int(np.int64(word))


@kernel
def random_unit(state: Hashes) -> float:
    """Draw a number in [0, 1)."""
    return np.float64(next_bits(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
