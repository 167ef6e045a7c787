"""The state of a windowed aggregate: partial rows per pane, merged into one result per window."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Hashes, Indices
from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import IS_FINAL, VERSION, AggregateNode, WindowSpec
from evenflow.sql.tasks.segments import SegmentStore, row_times_us
from evenflow.sql.types import physical_schema, quote_identifier, select_list_sql


class PaneState:
    """Partial rows of one aggregate; the windows up to `emitted_until_us` have been emitted."""

    def __init__(self, node: AggregateNode, engine: Engine, key: tuple[str, ...] | None) -> None:
        self.node = node
        self.engine = engine
        self.store = SegmentStore(key, self.merge_partials)
        self.outgoing = SegmentStore(key)  # partial rows of this step for the homes of split keys
        self.emitted_until_us = NO_WATERMARK_US
        self._empty = physical_schema(node.relation.schema).empty_table()

    def add_partials(
        self, partial: pa.Table, clock_us: int, *, may_be_late: bool, leaving: Hashes
    ) -> int:
        """Add partial rows; return how many rows came too late for every window.

        Those of `leaving` keys are merged by another worker. None of them belongs to a window that
        the clock has passed, so they arrive there in time.
        """
        late, size_us = 0, self.node.windows.size_us
        if may_be_late and len(partial):
            panes = partial.column("_t").to_numpy()
            is_late = last_window_start(self.node.windows, panes) + size_us <= clock_us
            if is_late.any():
                late = int(pc.sum(partial.column("_n").filter(pa.array(is_late))).as_py())
                partial = partial.filter(pa.array(~is_late))
        if len(leaving) and len(partial):
            leaves = np.isin(self.store.key_hashes(partial), leaving)
            self.outgoing.append(partial.filter(pa.array(leaves)))
            partial = partial.filter(pa.array(~leaves))
        self.keep(partial)
        return late

    def keep(self, partial: pa.Table) -> None:
        """Keep partial rows."""
        self.store.append(partial)

    def emit_early(self, clock_us: int) -> pa.Table:
        """Return results that are not complete yet, of what changed in this step."""
        return self._empty

    def emit_due_windows(self, clock_us: int) -> pa.Table:
        """Return the results of the windows that the clock has passed, and drop their panes."""
        windows = self.node.windows
        result = self._empty
        starts = due_window_starts(
            windows, self.store.distinct_times(), self.emitted_until_us, clock_us
        )
        if len(starts):
            result = self._window_results(starts).cast(self._empty.schema)
        self.emitted_until_us = max(self.emitted_until_us, clock_us)
        self.store.drop_before(first_open_pane(windows, self.emitted_until_us))
        return result

    def next_due_us(self) -> int | None:
        """Return the clock at which the next window is complete."""
        windows, panes = self.node.windows, self.store.distinct_times()
        starts = due_window_starts(windows, panes, self.emitted_until_us, -NO_WATERMARK_US)
        return int(starts.min()) + windows.size_us if len(starts) else None

    def _window_results(self, starts: Indices) -> pa.Table:
        """Merge the panes of each window that starts at one of `starts`."""
        node, windows, parts = self.node, self.node.windows, []
        tumbling = windows.size_us == windows.pane_us
        single = tumbling or len(starts) == 1  # each row is in one window: reuse the prepared plan
        for run, rows in self.store.rows_between(int(starts[0]), int(starts[-1]) + windows.size_us):
            if single:
                window = row_times_us(rows) if tumbling else np.full(len(rows), starts[0])
                is_due = (window + windows.size_us > run.emitted_until_us) & np.isin(window, starts)
                parts.append(rows.append_column("_ws", pa.array(window)).filter(pa.array(is_due)))
            else:
                emitted = np.full(len(rows), run.emitted_until_us)
                parts.append(rows.append_column("_emitted", pa.array(emitted)))
        partials = pa.concat_tables(parts)
        if single:
            sql = _window_result_sql(node, quote_identifier(ROWS_TABLE))
            return self.engine.run_prepared(sql, partials)
        tables = {"_partial": partials, "_due": pa.table({"_ws": starts})}
        end = f'"_ws" + {windows.size_us}'
        panes = f'_partial JOIN _due ON "_t" >= "_ws" AND "_t" < {end} AND {end} > "_emitted"'
        return self.engine.run(_window_result_sql(node, panes), tables)

    def merge_partials(self, rows: pa.Table) -> pa.Table:
        """Merge partial rows into one per pane and group."""
        sql = _merge_sql(self.node, "_t", quote_identifier(ROWS_TABLE))
        return self.engine.run_prepared(sql, rows).cast(self.node.partial_schema)


def window_merge_sql(node: AggregateNode, source: str) -> str:
    """Write what merges partial rows into one per window and group."""
    return _merge_sql(node, "_ws", source)


def result_sql(node: AggregateNode, merged: str, *, is_final: bool = True) -> str:
    """Write the results of merged partial rows."""
    having = f" WHERE {node.having}" if node.having else ""
    if node.updates:
        marks = f'0::BIGINT AS "{VERSION}", {is_final} AS "{IS_FINAL}"'
        merged = f"SELECT *, {marks} FROM ({merged})"  # noqa: S608
    return f"SELECT {select_list_sql(node.select)} FROM ({merged}){having}"  # noqa: S608


def _merge_sql(node: AggregateNode, time: str, source: str) -> str:
    groups = ", ".join(map(quote_identifier, (time, *node.keys)))
    return f"SELECT {groups}, {select_list_sql(node.merges)} FROM {source} GROUP BY {groups}"  # noqa: S608


def _window_result_sql(node: AggregateNode, source: str) -> str:
    return result_sql(node, _merge_sql(node, "_ws", source))


def last_window_start(windows: WindowSpec, panes: Indices) -> Indices:
    """Return the start of the last window over each pane."""
    result: Indices = (panes - windows.start_us) // windows.slide_us * windows.slide_us
    return result + windows.start_us


def due_window_starts(
    windows: WindowSpec, panes: Indices, emitted_until_us: int, clock_us: int
) -> Indices:
    """Return the starts of windows with panes that end in (emitted_until_us, clock_us]."""
    panes = panes[panes < clock_us]
    if not len(panes):
        return panes
    last_starts = last_window_start(windows, panes)
    windows_per_pane = -(-windows.size_us // windows.slide_us)
    steps = np.arange(windows_per_pane, dtype=np.int64) * windows.slide_us
    starts = (last_starts[:, None] - steps).ravel()
    ends = starts + windows.size_us
    covers = ends > np.repeat(panes, windows_per_pane)
    return np.unique(starts[covers & (ends <= clock_us) & (ends > emitted_until_us)])


def first_open_pane(windows: WindowSpec, clock_us: int) -> int:
    """Return the first pane that a window ending after the clock covers."""
    if clock_us <= NO_WATERMARK_US:
        return NO_WATERMARK_US
    # The last window over pane p ends at start + floor((p - start) / slide) * slide + size.
    steps = (clock_us - windows.size_us - windows.start_us) // windows.slide_us + 1
    return int(windows.start_us + steps * windows.slide_us)
