"""Parameters of query strings."""

import math
from collections.abc import Sequence

from starlette.requests import Request

from evenflow.errors import InputError

MAX_ITEMS = 10_000


def int_parameter(
    request: Request, name: str, default: int, *, least: int = 1, most: int = MAX_ITEMS
) -> int:
    """Return a number of items, or refuse the request."""
    text = request.query_params.get(name, str(default))
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    if not least <= value <= most:
        raise InputError(f"{name} must be a number from {least} to {most:,}, got {text[:60]!r}")
    return value


def time_parameter(request: Request, name: str) -> float | None:
    """Return a time in seconds since the epoch; None if it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = float(text[:60])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name} must be a time in seconds since 1970, got {text[:60]!r}")
    return value


def choice_parameter(request: Request, name: str, allowed: Sequence[str]) -> str:
    """Return one of some words, by default the first; or refuse the request."""
    text = request.query_params.get(name, allowed[0])
    if text not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {text[:60]!r}")
    return text
