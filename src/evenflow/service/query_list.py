"""The list of queries as the page shows it: searched, filtered, sorted, a part at a time."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from evenflow.service.api_model import ApiModel
from evenflow.service.present import ObservedRun, per_second

QueryFilter = Literal["all", "keyed", "whole", "pinned", "quarantined", "late"]
QueryOrder = Literal["load", "name", "worker", "rows_in", "rows_out", "state_bytes", "late"]


class QueryRow(ApiModel):
    """One query in the list; `loads` has the workers on which it had load, `worker` None: keyed."""

    name: str
    form: str
    keyed: bool
    publish: bool
    pinned: bool
    quarantined: bool
    worker: int | None
    load: float
    loads: dict[int, float]
    rows_in: int
    rows_out: int
    state_bytes: float
    late: int


class QueryListInfo(ApiModel):
    """Some rows from `offset` on of the `total` that were found."""

    total: int
    offset: int
    rows: list[QueryRow]


@dataclass(frozen=True)
class QueryTable:
    """All queries after one batch; made when the first client asks, then shared."""

    seen: ObservedRun

    @cached_property
    def _rows(self) -> list[QueryRow]:
        return [self._row(name) for name in sorted(self.seen.queries)]

    def _row(self, name: str) -> QueryRow:
        seen, hosted = self.seen, self.seen.queries[name]
        measured, last = seen.query_load(name), seen.last_snapshot
        loads: dict[int, float] = {}
        if measured is not None and last is not None:
            shares = per_second(measured.load, last)
            loads = {w: round(float(shares[w]), 5) for w in np.flatnonzero(shares).tolist()}
        return QueryRow(
            name=name,
            form=hosted.form,
            keyed=name in seen.plan.tables,
            publish=hosted.publish,
            pinned=hosted.pin is not None,
            quarantined=name in seen.quarantined,
            worker=seen.plan.placement.get(name),
            load=round(sum(loads.values()), 5),
            loads=loads,
            rows_in=0 if measured is None else int(measured.rows_in.sum()),
            rows_out=0 if measured is None else int(measured.rows_out.sum()),
            state_bytes=0.0 if measured is None else float(measured.state_bytes.sum()),
            late=seen.late.get(name, 0),
        )

    def find(
        self, search: str, show: str, order: str, *, descending: bool, offset: int, limit: int
    ) -> QueryListInfo:
        """Return the queries whose name contains `search`; equal ones in the order of names."""
        text = search.casefold()
        found = [row for row in self._rows if text in row.name.casefold() and _is_shown(row, show)]
        # Keyed queries, which run on all workers, come before those on worker 0.
        found.sort(
            key=lambda row: -1 if (value := getattr(row, order)) is None else value,
            reverse=descending,
        )
        return QueryListInfo(total=len(found), offset=offset, rows=found[offset : offset + limit])


def _is_shown(row: QueryRow, show: str) -> bool:
    return show == "all" or bool(row.worker is not None if show == "whole" else getattr(row, show))
