"""NumPy array types, and the fields of frozen dataclasses as read-only arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenflow.errors import InputError

Floats = NDArray[np.float64]
Workers = NDArray[np.int32]
Indices = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Bools = NDArray[np.bool_]


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


def freeze_fields(instance: object, **dtypes: Any) -> None:
    """Turn fields of a frozen dataclass into read-only arrays, in its `__post_init__`."""
    for name, dtype in dtypes.items():
        object.__setattr__(instance, name, frozen(getattr(instance, name), dtype))


def check_not_negative(name: str, values: Floats) -> None:
    """Refuse values that are negative or not finite."""
    bad = ~np.isfinite(values) | (values < 0)
    if bool(bad.any()):
        raise InputError(f"{name} must be finite and not negative, got {values[bad][0]}")
