"""The state of a Python operator on one worker, and its steps."""

from collections.abc import Mapping
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.time import event_times_us, valid_time_mask
from evenflow.sql.failures import QueryFailed
from evenflow.sql.isolated_operator import IsolatedOperator
from evenflow.sql.python_operator import Operator
from evenflow.sql.split_plan import SplitPolicy
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.tasks.task import (
    NO_PARTIALS,
    PartialRows,
    StepOutput,
    Task,
    filter_and_count,
)


class OperatorTask(Task):
    """An operator on one worker; it lives in the worker process until the operator moves.

    An isolated operator is called in a process of its own; its state is here all the same.
    """

    def __init__(
        self,
        operator: Operator | IsolatedOperator,
        time_columns: Mapping[str, str],
        key: tuple[str, ...] | None,
    ) -> None:
        self._operator = operator
        self._time_columns = time_columns
        self._store = SegmentStore(key)
        self._outgoing = SegmentStore(key)  # state of this step for the homes of split keys

    def step(
        self, rows: Mapping[str, pa.Table], watermark_us: int, partials: PartialRows = NO_PARTIALS
    ) -> StepOutput:
        """Run the operator on a batch."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        timely, late, poison = self._drop_late_and_poison(rows)
        before = self._state_table()
        apart = self._operator if isinstance(self._operator, IsolatedOperator) else None
        cpu_before = apart.cpu_seconds if apart else 0.0
        try:
            result, after = self._operator.step(timely, before, self.watermark_us)
            result, after = result.cast(self._operator.schema), after.cast(self._operator.state)
        except QueryFailed:
            raise
        except Exception as error:  # an error in user code fails only this query
            raise QueryFailed("error", f"{type(error).__name__}: {error}") from error
        if after is not before and not after.equals(before):
            self._replace_state(self._without_leaving(after))
        cpu_seconds = apart.cpu_seconds - cpu_before if apart else 0.0
        return StepOutput(result, late, poison, cpu_seconds)

    def _without_leaving(self, after: pa.Table) -> pa.Table:
        """Set aside the state of split keys that another worker merges; return the rest."""
        leaving = self.splits.leaving_hashes
        if not len(leaving) or not len(after):
            return after
        leaves = np.isin(self._store.key_hashes(after), leaving)
        self._outgoing.append(_with_time(after.filter(pa.array(leaves))))
        return after.filter(pa.array(~leaves))

    def _replace_state(self, state: pa.Table) -> None:
        self._store.runs = []
        self._store.append(_with_time(state))

    @property
    def next_due_us(self) -> int | None:
        """The watermark at which the operator must be called without new rows."""
        return self._operator.next_due_us(self._state_table())

    def close(self) -> None:
        """End the operator's process, if it has one."""
        if isinstance(self._operator, IsolatedOperator):
            self._operator.close()

    def stores(self) -> Mapping[str, SegmentStore]:
        """Return the store of the state."""
        return {"state": self._store}

    def outgoing(self) -> Mapping[str, SegmentStore]:
        """Return the state of the last step that the homes of split keys merge."""
        return {"state": self._outgoing}

    def split_policy(self, label: str, stream: str) -> SplitPolicy:
        """Return where the state of a split key is; only an operator with `merge` has some."""
        if not self._operator.has_merge():
            return super().split_policy(label, stream)
        return SplitPolicy.HOME

    def _state_table(self) -> pa.Table:
        empty = self._operator.state.empty_table()
        parts = [run.live_rows.drop_columns(["_t"]) for run in self._store.runs]
        if len(parts) > 1 and self._store.key_columns and self._operator.has_merge():
            self._replace_state(reduce(self._merge, parts))
            return self._state_table()
        return pa.concat_tables([empty, *parts]) if parts else empty

    def _merge(self, state: pa.Table, part: pa.Table) -> pa.Table:
        """Add a part of the state that came from another worker; keys of both are merged."""
        ours, theirs = self._store.key_hashes(state), self._store.key_hashes(part)
        both = np.intersect1d(ours, theirs)
        if not len(both):
            return pa.concat_tables([state, part])
        in_ours, in_theirs = np.isin(ours, both), np.isin(theirs, both)
        try:
            merged = self._operator.merge(
                state.filter(pa.array(in_ours)), part.filter(pa.array(in_theirs))
            ).cast(self._operator.state)
        except QueryFailed:
            raise
        except Exception as error:  # an error in user code fails only this query
            raise QueryFailed("error", f"in merge: {type(error).__name__}: {error}") from error
        rest = state.filter(pa.array(~in_ours)), part.filter(pa.array(~in_theirs))
        return pa.concat_tables([*rest, merged])

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


def _with_time(state: pa.Table) -> pa.Table:
    """Return the state with the time that a store orders by; all of it is kept until replaced."""
    return state.append_column("_t", pa.nulls(len(state), pa.int64()).fill_null(0))
