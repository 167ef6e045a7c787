"""The one door to Numba: a typed decorator for loops that cannot be vectorised."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a loop to machine code, kept on disk so that only the first run pays.

    It runs beside other threads, so no array that it changes may be theirs as well.
    The signature stays the one that was written, so that callers are still type-checked.
    Beside each kernel that decides something stands a plain version, its explanation and
    its oracle in the tests.

    >>> import numpy as np
    >>> @kernel
    ... def total(values: np.ndarray) -> float:
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> total(np.array([1.0, 2.0]))
    3.0
    """
    in_file = not function.__code__.co_filename.startswith("<")
    return cast(Function, numba.njit(cache=in_file, nogil=True)(function))
