"""Errors that the caller can fix."""

import math


class InputError(ValueError):
    """The input cannot be used; the message says what was given, what was expected, what to do."""


class DamagedFileError(InputError, OSError):
    """A file does not hold what was written to it. Never a query's fault: it stops the run."""


class SetupError(RuntimeError):
    """Something the program needs is missing or fails: Java, a Spark master, a port, a disk."""


def require_non_negative(name: str, value: float) -> None:
    """Refuse a setting that is negative, infinite or not a number."""
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{name} must be a number of at least 0, got {value}")
