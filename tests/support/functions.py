"""Functions of a user, for SQL."""

import pyarrow as pa
import pyarrow.compute as pc


def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply(values.cast(pa.float64()), 2.0)


def bracketed(text: pa.Array, time: pa.Array) -> pa.Array:
    assert str(time.type) == "timestamp[us, tz=UTC]"
    return pc.binary_join_element_wise(text, pc.strftime(time, "%M:%S"), "<")


def short(values: pa.Array) -> pa.Array:
    return values.slice(1)


def raising(values: pa.Array) -> pa.Array:
    raise ValueError(f"{values[0]} is a secret")
