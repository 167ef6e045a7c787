"""Errors that the caller can fix."""


class InputError(ValueError):
    """The input cannot be used; the message says what was given, what was expected, what to do."""


class SetupError(RuntimeError):
    """Something the program needs is missing or fails: Java, a Spark master, a port, a disk."""
