"""The state of a windowed aggregate: partial rows per pane, answered once per window."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Indices
from evenflow.sql.engine import ROWS, Engine
from evenflow.sql.plan import Group, Windows
from evenflow.sql.store import NEVER, Store
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
        windows, node = self.node.windows, self.node
        result = self._nothing
        starts = due(windows, self.store.times(), self.answered_us, clock_us)
        if len(starts):
            parts = []
            for run, rows in self.store.between(int(starts[0]), int(starts[-1]) + windows.size_us):
                floor = pa.array(np.full(len(rows), run.floor_us))
                parts.append(rows.append_column("_floor", floor))
            tables = {"_partial": pa.concat_tables(parts), "_due": pa.table({"_ws": starts})}
            result = self.engine.run(_answer_sql(node), tables).cast(self._nothing.schema)
        self.answered_us = max(self.answered_us, clock_us)
        # A pane is done when the last window over it is.
        self.store.forget(first_open_pane(windows, self.answered_us))
        return result

    def next_due_us(self) -> int | None:
        """Return the clock at which the next window is complete."""
        ends = next_ends(self.node.windows, self.store.times(), self.answered_us)
        return int(ends.min()) if len(ends) else None

    def _merge(self, rows: pa.Table) -> pa.Table:
        node = self.node
        groups = ", ".join(name(c) for c in ("_t", *node.keys))
        merged = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.merges)
        sql = f"SELECT {groups}, {merged} FROM {name(ROWS)} GROUP BY {groups}"  # noqa: S608
        return self.engine.run_again(sql, rows).cast(node.stored)


def _answer_sql(node: Group) -> str:
    windows = node.windows
    groups = ", ".join(name(c) for c in ("_ws", *node.keys))
    merged = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.merges)
    if windows.size_us == windows.pane_us:
        source = '(SELECT *, "_t" AS "_ws" FROM _partial)'
        source += ' SEMI JOIN _due USING ("_ws")'
    else:
        source = f'_partial JOIN _due ON "_t" >= "_ws" AND "_t" < "_ws" + {windows.size_us}'
    inner = (
        f'SELECT {groups}, {merged} FROM {source} WHERE "_ws" + {windows.size_us} > "_floor" '  # noqa: S608
        f"GROUP BY {groups}"
    )
    select = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.select)
    having = f" WHERE {node.having}" if node.having else ""
    return f"SELECT {select} FROM ({inner}){having}"  # noqa: S608


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
