"""Errors that are the caller's to mend."""


class InputError(ValueError):
    """What was given cannot be used; the message says what was found and what to do."""
