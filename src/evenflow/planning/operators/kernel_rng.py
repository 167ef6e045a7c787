"""Random numbers inside Numba kernels: xorshift64* (Marsaglia 2003, Vigna 2016), 64 bits of state.

Numba's own generator is global: with it, the same seed would not always give the same plan.
"""

import numpy as np
from numpy.typing import NDArray

from evenflow.jit import kernel

RngState = NDArray[np.uint64]  # one element, which each draw replaces
_MULTIPLIER = np.uint64(2685821657736338717)


def seed_state(rng: np.random.Generator) -> RngState:
    """Return a random state; never zero, because xorshift maps zero to zero."""
    return rng.integers(1, 2**63, size=1, dtype=np.uint64)


@kernel
def next_bits(state: RngState) -> np.uint64:
    """Draw 64 bits."""
    bits: np.uint64 = state[0]
    bits ^= bits >> np.uint64(12)
    bits ^= bits << np.uint64(25)
    bits ^= bits >> np.uint64(27)
    state[0] = bits
    return bits * _MULTIPLIER


@kernel
def random_below(state: RngState, bound: int) -> int:
    """Draw an integer in 0..bound-1 (bound below 2^32), without a slow modulo."""
    scaled = ((next_bits(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)
    return int(np.int64(scaled))


@kernel
def random_unit(state: RngState) -> float:
    """Draw a number in [0, 1) from 53 bits, the precision of a float."""
    return np.float64(next_bits(state) >> np.uint64(11)) * 2.0**-53
