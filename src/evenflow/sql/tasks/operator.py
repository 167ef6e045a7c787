"""Python operators: a class over Arrow tables, for what SQL cannot express.

An operator is a pure step from new rows and its state (an Arrow table) to results and the next
state. Because the state is a table, it is saved, moved and split by key like that of any query.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError
from evenflow.model.time import event_times_us, valid_time_mask
from evenflow.sql.failures import QueryFailed
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.tasks.task import (
    NO_PARTIALS,
    PartialRows,
    StepOutput,
    Task,
    filter_and_count,
)


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


class OperatorTask(Task):
    """An operator on one worker; it lives in the worker process until the operator moves."""

    def __init__(
        self, operator: type[Operator], time_columns: Mapping[str, str], key: tuple[str, ...] | None
    ) -> None:
        self._operator = operator()
        self._time_columns = time_columns
        self._store = SegmentStore(key)

    def step(
        self, rows: Mapping[str, pa.Table], watermark_us: int, partials: PartialRows = NO_PARTIALS
    ) -> StepOutput:
        """Run the operator on a batch."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        timely, late, poison = self._drop_late_and_poison(rows)
        before = self._state_table()
        try:
            result, after = self._operator.step(timely, before, self.watermark_us)
            result, after = result.cast(self._operator.schema), after.cast(self._operator.state)
        except Exception as error:  # an error in user code fails only this query
            raise QueryFailed("error", f"{type(error).__name__}: {error}") from error
        if after is not before and not after.equals(before):
            self._store.runs = []
            self._store.append(
                after.append_column("_t", pa.nulls(len(after), pa.int64()).fill_null(0))
            )
        return StepOutput(result, late, poison)

    @property
    def next_due_us(self) -> int | None:
        """The watermark at which the operator must be called without new rows."""
        return self._operator.next_due_us(self._state_table())

    def stores(self) -> Mapping[str, SegmentStore]:
        """Return the store of the state."""
        return {"state": self._store}

    def _state_table(self) -> pa.Table:
        empty = self._operator.state.empty_table()
        parts = [run.live_rows.drop_columns(["_t"]) for run in self._store.runs]
        return pa.concat_tables([empty, *parts]) if parts else empty

    def _drop_late_and_poison(
        self, rows: Mapping[str, pa.Table]
    ) -> tuple[dict[str, pa.Table], dict[str, int], dict[str, int]]:
        timely: dict[str, pa.Table] = {}
        late: dict[str, int] = {}
        poison: dict[str, int] = {}
        for stream, column in self._time_columns.items():
            if stream in rows:
                valid = valid_time_mask(event_times_us(rows[stream].column(column)))
                table = filter_and_count(rows[stream], valid, stream, poison)
                in_time = pc.greater_equal(event_times_us(table.column(column)), self.watermark_us)
                timely[stream] = filter_and_count(table, in_time, stream, late)
        return timely, late, poison


def operator_path(operator: type[Operator]) -> str:
    """Return the import path of an operator's class, such as package.module:Class."""
    path = f"{operator.__module__}:{operator.__qualname__}"
    if operator.__module__ == "__main__" or "<locals>" in path:
        raise InputError(
            f"operator {path} cannot be imported by workers; define it at the top of a module"
        )
    return path


def import_operator(path: str) -> type[Operator]:
    """Return the class at an import path.

    >>> import_operator("math:pi")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: math:pi is not a subclass of evenflow.sql.Operator
    """
    module, _, name = path.partition(":")
    try:
        target: Any = import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{path} cannot be imported: {error}; write package.module:Class, and put the module "
            "where Python finds it"
        ) from None
    if not (isinstance(target, type) and issubclass(target, Operator)):
        raise InputError(f"{path} is not a subclass of evenflow.sql.Operator")
    return target
