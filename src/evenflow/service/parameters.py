"""Parameters of query strings."""

from starlette.requests import Request

from evenflow.errors import InputError

MAX_ITEMS = 10_000


def int_parameter(request: Request, name: str, default: int) -> int:
    """Return a number of items from 1 to 10,000, or refuse the request."""
    text = request.query_params.get(name, str(default))
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= value <= MAX_ITEMS:
        raise InputError(f"{name} must be a number from 1 to {MAX_ITEMS:,}, got {text[:60]!r}")
    return value
