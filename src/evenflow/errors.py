"""Errors that are the caller's to mend."""


class InputError(ValueError):
    """What was given cannot be used; the message says what was found and what to do."""


class SetupError(RuntimeError):
    """What is needed around us is missing or refuses: Java, a master, a port, a disk."""
