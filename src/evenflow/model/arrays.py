"""NumPy types used across borders, and the one place where values become frozen arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Workers = NDArray[np.int32]
Indices = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Rng = np.random.Generator

NOWHERE = -1  # the worker of a query, key or operator that does not run yet


def frozen(values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """Return a read-only array; copies only if the caller could still write to it.

    >>> frozen([1, 2], np.float64).flags.writeable
    False
    """
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy() if array is values or array.base is not None else array
        array.flags.writeable = False
    return array
