"""Python operators: a class over Arrow tables, for what SQL cannot express.

An operator is a pure step from new rows and its state (an Arrow table) to results and the next
state. Because the state is a table, it is saved, moved and split by key like that of any query.
The process of an isolated operator imports this module: it must not need DuckDB or Numba.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.import_paths import import_object, object_path


class Operator(ABC):
    """Base of Python operators: `schema` is that of the results, `state` that of the state.

    To be split by a key, `state` must have the key's columns under their names in the first stream.
    The same rows and state must always give the same result: a batch may run again.
    """

    schema: ClassVar[pa.Schema]
    state: ClassVar[pa.Schema]
    time: ClassVar[str | None] = None

    @abstractmethod
    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        """Return the results of a batch, and the state after it."""

    def next_due_us(self, state: pa.Table) -> int | None:
        """Return the watermark at which the state gives results without new rows, if it does."""
        return None

    def merge(self, state: pa.Table, part: pa.Table) -> pa.Table:
        """Return one state for two states of the same keys; declare it only if keys may be split.

        Workers that share a hot key divide its new rows. The key's home steps with its state, the
        others with none, and send theirs home, where it is merged before the next batch. However
        the new rows of a batch are divided into A and B, these must be the same, in any row order:

        - the results of `step(A, state, w)` and `step(B, none, w)` together, and those of
          `step(A and B, state, w)`;
        - `merge` of the two states after these steps, and the state after that step.

        So the result of a step may depend on single new rows, and on all rows of which the
        watermark `w` says that they are complete, but not on the number or order of new rows.
        """
        raise NotImplementedError

    @classmethod
    def has_merge(cls) -> bool:
        """Tell whether the operator declares `merge`, so that its hot keys can be split."""
        return cls.merge is not Operator.merge


def operator_path(operator: type[Operator]) -> str:
    """Return the import path of an operator's class, such as package.module:Class."""
    return object_path(operator, "operator")


def import_operator(path: str) -> type[Operator]:
    """Return the class at an import path.

    >>> import_operator("math:pi")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: math:pi is not a subclass of evenflow.sql.Operator
    """
    target = import_object(path, "package.module:Class")
    if not (isinstance(target, type) and issubclass(target, Operator)):
        raise InputError(f"{path} is not a subclass of evenflow.sql.Operator")
    return target
