"""The state of a windowed aggregate: partial rows per pane, answered once per window."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Indices
from evenflow.sql.engine import ROWS, Engine
from evenflow.sql.plan import Group, Windows
from evenflow.sql.store import NEVER, Store, column_times
from evenflow.sql.types import name, physical_schema


class Panes:
    """Partial rows of one Group on one worker; `answered_us` is the clock up to which it spoke."""

    def __init__(self, node: Group, engine: Engine, key: tuple[str, ...] | None) -> None:
        self.node = node
        self.engine = engine
        self.store = Store(key, self._merge)
        self.answered_us = NEVER
        self._nothing = physical_schema(node.relation.schema).empty_table()

    def take(self, partial: pa.Table, clock_us: int, *, may_be_late: bool) -> int:
        """Add partial rows; return how many rows behind them came too late for any window."""
        late = 0
        if may_be_late and len(partial):
            panes = partial.column("_t").to_numpy()
            dead = last_end(self.node.windows, panes) <= clock_us
            if dead.any():
                late = int(pc.sum(partial.column("_n").filter(pa.array(dead))).as_py())
                partial = partial.filter(pa.array(~dead))
        self.store.append(partial)
        return late

    def answer(self, clock_us: int) -> pa.Table:
        """Give the answers of all windows that the clock has passed, and forget their panes."""
        windows = self.node.windows
        result = self._nothing
        starts = due(windows, self.store.times(), self.answered_us, clock_us)
        if len(starts):
            result = self._answers(starts).cast(self._nothing.schema)
        self.answered_us = max(self.answered_us, clock_us)
        # A pane is done when the last window over it is.
        self.store.forget(first_open_pane(windows, self.answered_us))
        return result

    def next_due_us(self) -> int | None:
        """Return the clock at which the next window is complete."""
        ends = next_ends(self.node.windows, self.store.times(), self.answered_us)
        return int(ends.min()) if len(ends) else None

    def _answers(self, starts: Indices) -> pa.Table:
        """Merge the panes of each window that begins at one of `starts`."""
        node, windows, parts = self.node, self.node.windows, []
        tumbling = windows.size_us == windows.pane_us
        single = tumbling or len(starts) == 1  # each row is of one window: the plan can be kept
        for run, rows in self.store.between(int(starts[0]), int(starts[-1]) + windows.size_us):
            if single:
                begins = column_times(rows) if tumbling else np.full(len(rows), starts[0])
                wanted = (begins + windows.size_us > run.floor_us) & np.isin(begins, starts)
                parts.append(rows.append_column("_ws", pa.array(begins)).filter(pa.array(wanted)))
            else:
                floors = np.full(len(rows), run.floor_us)
                parts.append(rows.append_column("_floor", pa.array(floors)))
        given = pa.concat_tables(parts)
        if single:
            return self.engine.run_again(_answer_sql(node, name(ROWS)), given)
        tables = {"_partial": given, "_due": pa.table({"_ws": starts})}
        return self.engine.run(_answer_sql(node, _due_sql(windows)), tables)

    def _merge(self, rows: pa.Table) -> pa.Table:
        node = self.node
        groups = ", ".join(name(c) for c in ("_t", *node.keys))
        merged = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.merges)
        sql = f"SELECT {groups}, {merged} FROM {name(ROWS)} GROUP BY {groups}"  # noqa: S608
        return self.engine.run_again(sql, rows).cast(node.stored)


def _answer_sql(node: Group, source: str) -> str:
    groups = ", ".join(name(c) for c in ("_ws", *node.keys))
    merged = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.merges)
    inner = f"SELECT {groups}, {merged} FROM {source} GROUP BY {groups}"  # noqa: S608
    select = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.select)
    having = f" WHERE {node.having}" if node.having else ""
    return f"SELECT {select} FROM ({inner}){having}"  # noqa: S608


def _due_sql(windows: Windows) -> str:
    size = windows.size_us
    return (
        f'(SELECT * FROM _partial JOIN _due ON "_t" >= "_ws" AND "_t" < "_ws" + {size} '  # noqa: S608
        f'WHERE "_ws" + {size} > "_floor")'
    )


def last_start(windows: Windows, panes: Indices) -> Indices:
    """Return the start of the last window over each pane."""
    result: Indices = (panes - windows.start_us) // windows.slide_us * windows.slide_us
    return result + windows.start_us


def last_end(windows: Windows, panes: Indices) -> Indices:
    """Return the end of the last window over each pane."""
    return last_start(windows, panes) + windows.size_us


def starts_over(windows: Windows, panes: Indices) -> Indices:
    """Return the starts of all windows over any of the panes."""
    over = -(-windows.size_us // windows.slide_us)
    steps = np.arange(over, dtype=np.int64) * windows.slide_us
    starts = (last_start(windows, panes)[:, None] - steps).ravel()
    covers = starts + windows.size_us > np.repeat(panes, over)
    return np.unique(starts[covers])


def due(windows: Windows, panes: Indices, answered_us: int, clock_us: int) -> Indices:
    """Return the starts of windows with panes that end in (answered, clock]."""
    panes = panes[panes < clock_us]
    if not len(panes):
        return panes
    starts = starts_over(windows, panes)
    ends = starts + windows.size_us
    return starts[(ends <= clock_us) & (ends > answered_us)]


def next_ends(windows: Windows, panes: Indices, answered_us: int) -> Indices:
    """Return the ends of windows that are still to be answered."""
    if not len(panes):
        return panes
    ends = starts_over(windows, panes) + windows.size_us
    return ends[ends > answered_us]


def first_open_pane(windows: Windows, clock_us: int) -> int:
    """Return the first pane that a window ending after the clock covers."""
    if clock_us <= NEVER:
        return NEVER
    # The last window over pane p ends at start + floor((p - start) / slide) * slide + size.
    steps = (clock_us - windows.size_us - windows.start_us) // windows.slide_us + 1
    return int(windows.start_us + steps * windows.slide_us)
