"""NumPy array types, and the fields of frozen dataclasses as read-only arrays."""

from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenflow.errors import InputError

Floats = NDArray[np.float64]
Workers = NDArray[np.int32]
Indices = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Rng = np.random.Generator

NOWHERE = -1  # the worker of a query, key or operator that does not run yet

_DTYPES = (
    (Floats, np.float64),
    (Workers, np.int32),
    (Indices, np.int64),
    (Hashes, np.uint64),
    (Bools, np.bool_),
)


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


def freeze_arrays(instance: Any) -> None:
    """Turn the array fields of a frozen dataclass into read-only arrays, in `__post_init__`."""
    dataclass: Any = type(instance)
    for name, dtype in _array_fields(dataclass):
        values = getattr(instance, name)
        if values is not None:
            object.__setattr__(instance, name, frozen(values, dtype))


@cache
def _array_fields(dataclass: Any) -> tuple[tuple[str, Any], ...]:
    """Return the array fields of a dataclass and their types, from its annotations."""
    return tuple(
        (field.name, dtype)
        for field in fields(dataclass)
        for annotation, dtype in _DTYPES
        if field.init and field.type in (annotation, annotation | None)
    )


def require_all_non_negative(name: str, values: Floats) -> None:
    """Refuse values that are negative or not finite."""
    bad = ~np.isfinite(values) | (values < 0)
    if bool(bad.any()):
        raise InputError(f"{name} must be finite and not negative, got {values[bad][0]}")
