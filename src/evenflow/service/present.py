"""The view-model: from what a run shows to what the service answers. Pure functions of values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenflow import model
from evenflow.model.arrays import Floats
from evenflow.model.plan import Plan
from evenflow.model.snapshot import QueryLoad, Snapshot, imbalance
from evenflow.model.traffic import round_robin_stream_bytes, total_shipped_bytes
from evenflow.service import run_protocol, schemas

# What the page gets; the API lists everything.
SHOWN_QUERIES = 200
SHOWN_KEYS = 20
SHOWN_WORKERS = 64
CORRELATION_BATCHES = 60


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What a run showed after a batch, read once; no snapshots before the first one."""

    plan: Plan
    queries: Mapping[str, run_protocol.QueryProtocol]
    streams: Mapping[str, run_protocol.StreamProtocol]
    snapshots: tuple[Snapshot, ...] = ()
    late: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)

    @property
    def last_snapshot(self) -> Snapshot | None:
        """The last one."""
        return self.snapshots[-1] if self.snapshots else None

    def worker_loads(self) -> Floats:
        """Return every worker's load as the share of a core."""
        if self.last_snapshot is None:
            return np.zeros(self.plan.workers)
        return per_second(self.last_snapshot.worker_loads(), self.last_snapshot)

    def query_load(self, name: str) -> QueryLoad | None:
        """Return what was measured of a query in the last batch."""
        return None if self.last_snapshot is None else self.last_snapshot.queries.get(name)


def per_second(values: Floats, snapshot: Snapshot) -> Floats:
    """Return amounts of a batch as amounts a second."""
    return (
        values / snapshot.interval_seconds
        if snapshot.interval_seconds > 0
        else np.zeros_like(values)
    )


def batch_point(snapshot: Snapshot) -> schemas.BatchPoint:
    """Return a batch as one point of the course of time."""
    loads, active = snapshot.worker_loads(), snapshot.plan.active
    rows = np.array([query.rows_in.sum() for query in snapshot.queries.values()], float)
    return schemas.BatchPoint(
        batch=snapshot.batch,
        at=snapshot.at,
        seconds=snapshot.interval_seconds,
        loads=_rounded(per_second(loads, snapshot)),
        active=len(active),
        imbalance=round(imbalance(loads, active), 4),
        rows_per_second=float(per_second(rows, snapshot).sum()),
        shipped_bytes=total_shipped_bytes(snapshot),
    )


def worker_infos(seen: ObservedRun) -> list[schemas.WorkerInfo]:
    """Return every worker as it was in the last batch."""
    shares, count = seen.worker_loads(), seen.plan.workers
    active = shares[list(seen.plan.active)]
    mean = float(active.mean()) if len(active) else 0.0
    state, shipped, seconds = np.zeros(count), np.zeros(count), np.zeros(count)
    asked: frozenset[int] = frozenset()
    if seen.last_snapshot is not None:
        asked = seen.last_snapshot.workers_to_drain
        state = sum((query.state_bytes for query in seen.last_snapshot.queries.values()), state)
        shipped = sum(seen.last_snapshot.shipped_bytes.values(), shipped)
        seconds = _zeros_unless_sized(seen.last_snapshot.worker_cpu_seconds, count)
    hosted = np.bincount(np.array(list(seen.plan.placement.values()), int), minlength=count)
    return [
        schemas.WorkerInfo(
            worker=worker,
            status="drained"
            if worker in seen.plan.drained
            else "draining"
            if worker in asked
            else "active",
            load=round(float(shares[worker]), 5),
            of_mean=round(float(shares[worker]) / mean, 4) if mean > 0 else 0.0,
            cpu_seconds=float(seconds[worker]),
            state_bytes=float(state[worker]),
            shipped_bytes=float(shipped[worker]),
            queries=int(hosted[worker]),
        )
        for worker in range(count)
    ]


def query_infos(seen: ObservedRun, limit: int | None = None) -> list[schemas.QueryInfo]:
    """Return the queries, the heaviest first; with a limit only those."""
    total = {name: _total_load(seen, name) for name in seen.queries}
    ranked = sorted(seen.queries, key=lambda name: (-total[name], name))
    return [_query_info(seen, name) for name in ranked[:limit]]


def _total_load(seen: ObservedRun, name: str) -> float:
    found = seen.query_load(name)
    return float(found.load.sum()) if found is not None else 0.0


def _query_info(seen: ObservedRun, name: str) -> schemas.QueryInfo:
    hosted, found, plan = seen.queries[name], seen.query_load(name), seen.plan
    shares = np.zeros(plan.workers)
    if found is not None and seen.last_snapshot is not None:
        shares = per_second(found.load, seen.last_snapshot)
    table = plan.tables.get(name)
    return schemas.QueryInfo(
        name=name,
        form=hosted.form,
        kind=hosted.kind,
        text=hosted.text,
        streams=list(hosted.streams),
        columns=column_labels(hosted.schema),
        parameters=None if hosted.parameters is None else column_labels(hosted.parameters),
        key=_key_columns(hosted, keyed=table is not None),
        keyable=hosted.inferred is not None,
        publish=hosted.publish,
        pinned=hosted.pin is not None,
        worker=plan.placement.get(name),
        load=round(float(shares.sum()), 5),
        loads=_rounded(shares),
        rows_in=int(found.rows_in.sum()) if found is not None else 0,
        rows_out=int(found.rows_out.sum()) if found is not None else 0,
        state_bytes=float(found.state_bytes.sum()) if found is not None else 0.0,
        table_entries=0 if table is None else len(table),
        late=seen.late.get(name, 0),
        quarantined=seen.quarantined.get(name),
    )


def _key_columns(hosted: run_protocol.QueryProtocol, *, keyed: bool) -> list[str] | None:
    """Return the key's columns; with their stream where streams are split by different ones."""
    key = hosted.inferred if keyed and hosted.key is None else hosted.key
    if not isinstance(key, Mapping):
        return None if key is None else list(key)
    if len(set(key.values())) == 1:
        return list(next(iter(key.values())))
    return [f"{stream}.{column}" for stream, columns in key.items() for column in columns]


def stream_infos(seen: ObservedRun) -> list[schemas.StreamInfo]:
    """Return the streams, the most shipped first."""
    nothing, found = np.zeros(seen.plan.workers), []
    turn = {} if seen.last_snapshot is None else round_robin_stream_bytes(seen.last_snapshot)
    for name, stream in seen.streams.items():
        shipped = (
            nothing
            if seen.last_snapshot is None
            else seen.last_snapshot.shipped_bytes.get(name, nothing)
        )
        found.append(
            schemas.StreamInfo(
                name=name,
                derived=stream.derived,
                time=stream.time,
                columns=column_labels(stream.schema),
                watermark_us=seen.watermarks.get(name),
                readers=sorted(q for q, query in seen.queries.items() if name in query.streams),
                workers=np.flatnonzero(shipped).tolist(),
                shipped_bytes=float(shipped.sum()),
                round_robin_bytes=turn.get(name, 0.0),
            )
        )
    return sorted(found, key=lambda view: (-view.shipped_bytes, view.name))


def hot_key_infos(
    seen: ObservedRun, query: str | None = None, count: int = SHOWN_KEYS
) -> list[schemas.HotKeyInfo]:
    """Return the heaviest keys of one keyed query or of all."""
    found = [
        schemas.HotKeyInfo(query=name, key=key.name, share=key.share, owner=key.owner)
        for name in seen.plan.tables
        if query in (None, name)
        for key in model.hot_keys(seen.snapshots, name, count)
    ]
    return sorted(found, key=lambda key: (-key.share, key.query, key.key))[:count]


def correlation_matrix(
    points: Sequence[schemas.BatchPoint], active: Sequence[int]
) -> schemas.CorrelationMatrix:
    """Return the correlation of the workers' loads over the last batches."""
    shown = list(active)[:SHOWN_WORKERS]
    taken = list(points)[-CORRELATION_BATCHES:]
    if len(taken) < 3 or not shown:
        return schemas.CorrelationMatrix(workers=shown, batches=len(taken), values=[])
    series = np.array([each.loads for each in taken])[:, shown]
    varies = np.ptp(series, axis=0) > 0
    centred = series - series.mean(axis=0)
    norms = np.where(varies, np.sqrt((centred**2).sum(axis=0)), 1.0)
    values = np.clip((centred.T @ centred) / np.outer(norms, norms), -1.0, 1.0)
    both = np.outer(varies, varies)
    rows = [
        [round(float(v), 3) if ok else None for v, ok in zip(row, known, strict=True)]
        for row, known in zip(values, both, strict=True)
    ]
    return schemas.CorrelationMatrix(workers=shown, batches=len(taken), values=rows)


def plan_info(value: Plan) -> schemas.PlanInfo:
    """Return the plan; hashed keys as hexadecimal digits, which JSON's numbers cannot hold."""
    return schemas.PlanInfo(
        workers=value.workers,
        drained=sorted(value.drained),
        placement=dict(value.placement),
        tables=[
            schemas.RoutingTableInfo(
                query=name,
                entries={
                    f"{int(key):016x}": int(owner)
                    for key, owner in zip(table.hashes, table.owners, strict=True)
                },
            )
            for name, table in value.tables.items()
        ],
    )


def column_labels(schema: Any) -> list[str]:
    """Return the columns of an Arrow schema as `name type`, without units and time zones."""
    return [f"{column.name} {str(column.type).partition('[')[0]}" for column in schema]


def _rounded(values: Iterable[float]) -> list[float]:
    """Return what a page can show, in few bytes."""
    return [round(float(value), 5) for value in values]


def _zeros_unless_sized(values: Floats, count: int) -> Floats:
    return values if len(values) == count else np.zeros(count)
