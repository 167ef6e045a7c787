"""The base of all JSON objects of the HTTP API."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """Base of all JSON objects of the API: frozen, unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RequestModel(ApiModel):
    """Base of all request bodies: nothing is converted, so `true` is no worker."""

    model_config = ConfigDict(strict=True)


def refuse_repeated_names(body: bytes) -> None:
    """Raise a ValueError if an object has a name twice, or a number is not one of JSON.

    Readers differ in which of two values they take, so one that checks a body may see another
    value than the one that is used.

    >>> refuse_repeated_names(b'[{"worker": 0, "worker": 1}]')
    Traceback (most recent call last):
    ValueError: 'worker' is given twice; keep one
    """
    json.loads(body, object_pairs_hook=_once, parse_constant=_refuse_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:60]!r} is given twice; keep one")
        found[name] = value
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
