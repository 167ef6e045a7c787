"""Dataclasses as JSON: the one codec of the ledger, commands, reports and index files.

Fields are written under their names, so a renamed field is a change of the checkpoint format.
"""

import base64
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import pyarrow as pa

Value = TypeVar("Value")


def encode(value: object) -> bytes:
    """Return a dataclass, a container of them or a plain JSON value as JSON."""
    return msgspec.json.encode(value, enc_hook=_encode_array)


def decode(data: bytes, kind: type[Value]) -> Value:
    """Read back what `encode` wrote; `kind` is the dataclass, or Any for plain JSON.

    >>> decode(encode({"keys": ("a", "b")}), dict[str, tuple[str, ...]])
    {'keys': ('a', 'b')}
    """
    return msgspec.json.decode(data, type=kind, dec_hook=_decode_array)


def _encode_array(value: object) -> object:
    if isinstance(value, pa.Schema):
        return base64.b64encode(value.serialize()).decode()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _decode_array(kind: Any, value: Any) -> object:
    if kind is pa.Schema:
        return _decode_schema(value)
    if get_origin(kind) is np.ndarray:
        array = np.array(value, dtype=get_args(get_args(kind)[1])[0])
        array.flags.writeable = False
        return array
    raise TypeError(f"{kind} has no JSON form")


@lru_cache(maxsize=1024)
def _decode_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
