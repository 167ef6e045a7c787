"""Names: the rule for names that users give, and lists of names in messages."""

import re
from collections.abc import Iterable

from evenflow.errors import InputError

MAX_NAMES_IN_MESSAGE = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def check_name(name: str, what: str) -> str:
    """Refuse a name that is not an SQL identifier.

    >>> check_name("bids_2", "query")
    'bids_2'
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a {what}; use letters, digits and _")
    return name


def join_names(names: Iterable[str]) -> str:
    """List names in a message.

    >>> join_names(["b", "a"]), join_names([])
    ('a, b', 'none')
    >>> join_names(map(str, range(100, 200)))[-22:]
    '118, 119 and 80 others'
    """
    ordered = sorted(names)
    text, others = ", ".join(ordered[:MAX_NAMES_IN_MESSAGE]), len(ordered) - MAX_NAMES_IN_MESSAGE
    return f"{text} and {others:,} others" if others > 0 else text or "none"
