"""Names of queries, streams and sinks: which are valid, and how messages list them."""

import re
from collections.abc import Iterable

from evenflow.errors import InputError

MAX_NAMES_IN_MESSAGE = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def join_names(names: Iterable[str]) -> str:
    """List names for a message, sorted and cut off after 20.

    >>> join_names(["b", "a"]), join_names([])
    ('a, b', 'none')
    >>> join_names(map(str, range(100, 200)))[-22:]
    '118, 119 and 80 others'
    """
    listed = sorted(names)
    if len(listed) > MAX_NAMES_IN_MESSAGE:
        shown = ", ".join(listed[:MAX_NAMES_IN_MESSAGE])
        return f"{shown} and {len(listed) - MAX_NAMES_IN_MESSAGE:,} others"
    return ", ".join(listed) or "none"


def check_name(name: str, what: str) -> str:
    """Refuse names that SQL could not contain without quotes; they also name files and folders."""
    if not _NAME.fullmatch(name):
        shown = repr(name) if len(name) <= 60 else f"{name[:57]!r}..."
        raise InputError(
            f"{shown} cannot name a {what}; use letters, digits and _, at most 128, not a digit "
            "first"
        )
    return name
