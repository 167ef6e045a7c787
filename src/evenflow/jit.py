"""Numba behind one typed decorator, for loops that cannot be vectorised."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a loop to machine code, cached on disk.

    The GIL is released, so no other thread may use an array that the kernel changes. Type checkers
    see the original signature. Each kernel that makes decisions has a plain Python version next to
    it, which explains it and is its oracle in tests.

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
