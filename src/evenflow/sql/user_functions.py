"""Functions of the user: from Arrow arrays to an Arrow array, called in SQL by their names."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.import_paths import import_object
from evenflow.sql.types import physical_type

UserCallable = Callable[..., pa.Array]


@dataclass(frozen=True, slots=True)
class UserCall:
    """A function with the types that a query calls it with."""

    path: str
    parameters: tuple[pa.DataType, ...]
    returns: pa.DataType

    @property
    def engine_name(self) -> str:
        """Its name in the engine."""
        text = repr((self.path, [str(kind) for kind in self.parameters], str(self.returns)))
        return f"user_{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"

    def evaluate(self, *columns: pa.ChunkedArray) -> pa.Array:
        """Call the function with arrays of Spark's types; its result has one value for each row."""
        given = [
            column.combine_chunks().cast(kind)
            for column, kind in zip(columns, self.parameters, strict=True)
        ]
        result = import_function(self.path)(*given)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array) or len(result) != len(columns[0]):
            found = (
                f"{len(result)} values" if isinstance(result, pa.Array) else type(result).__name__
            )
            raise TypeError(f"expected an Arrow array with a value for each row, got {found}")
        return result.cast(self.returns).cast(physical_type(self.returns))


def import_function(path: str) -> UserCallable:
    """Return the function at an import path.

    >>> import_function("math:pi")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: math:pi is not a function
    """
    target = import_object(path, "package.module:name")
    if not callable(target):
        raise InputError(f"{path} is not a function")
    return target  # type: ignore[no-any-return]
