"""Errors that are the caller's to mend."""

import math


class InputError(ValueError):
    """What was given cannot be used; the message says what was found and what to do."""


class SetupError(RuntimeError):
    """What is needed around us is missing or refuses: Java, a master, a port, a disk."""


def require_non_negative(name: str, value: float) -> None:
    """Refuse a setting that is negative, infinite or not a number."""
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{name} must be a number of at least 0, got {value}")
