"""Errors that the caller can fix."""


class InputError(ValueError):
    """Invalid input; the message says what was given, what was expected and what to do."""


class SetupError(RuntimeError):
    """The environment is missing something: Java, a Spark master, a port, disk space."""
