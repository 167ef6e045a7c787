"""Errors that the caller can fix."""

import math

MAX_ERROR_CHARACTERS = 500


class InputError(ValueError):
    """The input cannot be used; the message says what was given, what was expected, what to do."""


class SetupError(RuntimeError):
    """Something the program needs is missing or fails: Java, a Spark master, a port, a disk."""


class SourceError(RuntimeError):
    """A file of a source cannot be read, or does not have the declared columns."""


class StorageError(OSError):
    """A stored file cannot be read or written: never a query's fault; the message names the file.

    It fails the Spark task, which Spark repeats; if that does not help, it stops the run.
    """


class FencedError(StorageError):
    """Another driver has taken over the checkpoint; this one must stop."""


class DamagedFileError(InputError, StorageError):
    """A stored file does not hold what was written to it."""


class ResultsRemovedError(InputError):
    """Results that were asked for are older than `results: keep` and were removed."""


def shorten(text: str, limit: int = MAX_ERROR_CHARACTERS) -> str:
    """Cut the middle out of a text that is too long for a message.

    >>> shorten("9" * 5000, 20)
    '999999999...99999999'
    """
    if len(text) <= limit:
        return text
    head = (limit - 2) // 2
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"


def require_non_negative(name: str, value: float) -> None:
    """Refuse a setting that is negative, infinite or not a number."""
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{name} must be a number of at least 0, got {value}")
