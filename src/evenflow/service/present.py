"""Convert the observed state of a run to API responses. Pure functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from typing import Any

import numpy as np

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.model.alert import Alert
from evenflow.model.arrays import Floats
from evenflow.model.decision import Decision, Outcome
from evenflow.model.move_history import heaviest_moves
from evenflow.model.plan import Move, Plan
from evenflow.model.proposal import Proposal
from evenflow.model.scaling_advice import ScalingAdvice
from evenflow.model.snapshot import QueryLoad, Snapshot
from evenflow.model.tenants import TenantUse
from evenflow.model.traffic import round_robin_stream_bytes
from evenflow.model.words import decision_words
from evenflow.service import run_protocol, schemas

# Limits of the page; the list endpoints of the API have their own.
SHOWN_QUERIES, SHOWN_KEYS, SHOWN_MOVES = 100, 20, 200
MAX_KEY_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """The public state of a run, read once after a batch; no snapshots before the first batch."""

    plan: Plan
    queries: Mapping[str, run_protocol.QueryProtocol]
    streams: Mapping[str, run_protocol.StreamProtocol]
    snapshots: tuple[Snapshot, ...] = ()
    decisions: tuple[Decision, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    late: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    tenants: tuple[TenantUse, ...] = ()
    watermarks: Mapping[str, int] = field(default_factory=dict)
    proposals: tuple[Proposal, ...] = ()
    set_aside: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, int] = field(default_factory=dict)
    advice: ScalingAdvice | None = None
    scales: bool = False
    alerts: tuple[Alert, ...] = ()

    @property
    def last_snapshot(self) -> Snapshot | None:
        """The snapshot of the last batch, None before the first."""
        return self.snapshots[-1] if self.snapshots else None

    def worker_loads(self) -> Floats:
        """Return the load of every worker as a share of a core."""
        if self.last_snapshot is None:
            return np.zeros(self.plan.workers)
        return per_second(self.last_snapshot.worker_loads(), self.last_snapshot)

    def query_load(self, name: str) -> QueryLoad | None:
        """Return the load of a query in the last batch, if it was measured."""
        return None if self.last_snapshot is None else self.last_snapshot.queries.get(name)


def per_second(values: Floats, snapshot: Snapshot) -> Floats:
    """Convert amounts per batch to amounts per second."""
    seconds = snapshot.interval_seconds
    return values / seconds if seconds > 0 else np.zeros_like(values)


def worker_infos(seen: ObservedRun) -> list[schemas.WorkerInfo]:
    """Return every worker with its figures of the last batch."""
    shares, count = seen.worker_loads(), seen.plan.workers
    active = shares[list(seen.plan.active)]
    mean = float(active.mean()) if len(active) else 0.0
    state, shipped, seconds = np.zeros(count), np.zeros(count), np.zeros(count)
    draining: frozenset[int] = frozenset()
    if (last := seen.last_snapshot) is not None:
        draining = last.workers_to_drain
        state = sum((query.state_bytes for query in last.queries.values()), state)
        shipped = sum(last.shipped_bytes.values(), shipped)
        if len(last.worker_cpu_seconds) == count:
            seconds = last.worker_cpu_seconds
    hosted = np.bincount(np.array(list(seen.plan.placement.values()), int), minlength=count)
    return [
        schemas.WorkerInfo(
            worker=worker,
            status="drained"
            if worker in seen.plan.drained
            else "draining"
            if worker in draining
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
    """Return the queries, heaviest first, at most `limit`."""
    loads = {name: seen.query_load(name) for name in seen.queries}
    totals = {name: 0.0 if load is None else float(load.load.sum()) for name, load in loads.items()}
    ranked = sorted(seen.queries, key=lambda name: (-totals[name], name))
    return [query_info(seen, name) for name in ranked[:limit]]


def query_info(seen: ObservedRun, name: str) -> schemas.QueryInfo:
    """Return one query."""
    hosted, plan, measured = seen.queries[name], seen.plan, seen.query_load(name)
    shares = np.zeros(plan.workers)
    if measured is not None and seen.last_snapshot is not None:
        shares = per_second(measured.load, seen.last_snapshot)
    table = plan.tables.get(name)
    return schemas.QueryInfo(
        name=name,
        form=hosted.form,
        kind=hosted.kind,
        text=printable(hosted.text, lines=True),
        streams=list(hosted.streams),
        columns=column_labels(hosted.schema),
        parameters=None if hosted.parameters is None else column_labels(hosted.parameters),
        key=_key_columns(hosted, keyed=table is not None),
        keyable=hosted.inferred is not None,
        publish=hosted.publish,
        pinned=hosted.pin is not None,
        worker=plan.placement.get(name),
        load=round(float(shares.sum()), 5),
        loads={w: round(float(shares[w]), 5) for w in np.flatnonzero(shares).tolist()},
        rows_in=0 if measured is None else int(measured.rows_in.sum()),
        rows_out=0 if measured is None else int(measured.rows_out.sum()),
        state_bytes=0.0 if measured is None else float(measured.state_bytes.sum()),
        table_entries=0 if table is None else len(table),
        late=seen.late.get(name, 0),
        quarantined=_error_text(seen.quarantined.get(name)),
    )


def _key_columns(hosted: run_protocol.QueryProtocol, *, keyed: bool) -> list[str] | None:
    """Return the key columns, as `stream.column` if streams use different columns."""
    key = hosted.inferred if keyed and hosted.key is None else hosted.key
    if not isinstance(key, Mapping):
        return None if key is None else list(key)
    if len(set(key.values())) == 1:
        return list(next(iter(key.values())))
    return [f"{stream}.{column}" for stream, columns in key.items() for column in columns]


def stream_infos(seen: ObservedRun) -> list[schemas.StreamInfo]:
    """Return the streams, most shipped bytes first."""
    last = seen.last_snapshot
    shipped_bytes = {} if last is None else last.shipped_bytes
    round_robin = {} if last is None else round_robin_stream_bytes(last)
    readers = Counter(name for query in seen.queries.values() for name in set(query.streams))
    infos = []
    for name, stream in seen.streams.items():
        shipped = shipped_bytes.get(name, np.zeros(seen.plan.workers))
        infos.append(
            schemas.StreamInfo(
                name=name,
                derived=stream.derived,
                time=stream.time,
                columns=column_labels(stream.schema),
                watermark_us=seen.watermarks.get(name),
                set_aside=seen.set_aside.get(name, 0),
                ahead=seen.ahead.get(name, 0),
                readers=readers[name],
                workers=np.flatnonzero(shipped).tolist(),
                shipped_bytes=float(shipped.sum()),
                round_robin_bytes=round_robin.get(name, 0.0),
            )
        )
    return sorted(infos, key=lambda info: (-info.shipped_bytes, info.name))


def plan_info(value: Plan) -> schemas.PlanInfo:
    """Return the plan; key hashes in hexadecimal, as JSON numbers cannot hold 64 bits."""
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
                splits={
                    f"{split.key_hash:016x}": schemas.SplitInfo(
                        owners=list(split.owners), fragmented=split.fragmented
                    )
                    for split in table.splits
                },
            )
            for name, table in value.tables.items()
        ],
    )


def column_labels(schema: Any) -> list[str]:
    """Format the columns of an Arrow schema as `name type`, without units and time zones."""
    return [
        printable(f"{column.name} {str(column.type).partition('[')[0]}", MAX_KEY_CHARACTERS)
        for column in schema
    ]


def _error_text(text: str | None) -> str | None:
    return None if text is None else printable(text, MAX_ERROR_CHARACTERS)


def brief_decision(info: schemas.DecisionInfo) -> schemas.DecisionInfo:
    """Return a decision without its lists, as the page shows it until it is opened."""
    cut: dict[str, Any] = {"moves": [], "loads_before": None, "loads_after": None, "arrived": {}}
    if info.measured is not None:
        cut["measured"] = info.measured.model_copy(update={"handed": []})
    return info.model_copy(update=cut)


def decision_info(
    decision: Decision,
    outcome: Outcome | None,
    loads: Mapping[int, Sequence[float]],
    key_names: Mapping[tuple[str, int], str],
    snapshot: Snapshot | None = None,
) -> schemas.DecisionInfo:
    """Return a decision with its outcome, if measured.

    `loads` maps a batch to the loads of all workers, `key_names` (query, hash) to a key's name;
    `snapshot` is that of the batch before the decision.
    """
    changed = decision.plan is not None
    moves = heaviest_moves(decision, snapshot)[:SHOWN_MOVES]
    before = loads.get(decision.batch)
    after = None if outcome is None else loads.get(outcome.batch)
    return schemas.DecisionInfo(
        number=decision.batch,
        at=decision.at,
        title=decision_words(decision.trigger, decision.reason, changed=changed),
        trigger=decision.trigger,
        reason=decision.reason,
        message=printable(decision.message, MAX_ERROR_CHARACTERS),
        changed=changed,
        staged=decision.target is not None,
        before=decision.before,
        predicted=decision.predicted,
        measured=None if outcome is None else _outcome_info(outcome),
        loads_before=None if before is None else list(before),
        loads_after=None if after is None else list(after),
        move_count=len(decision.moves),
        moves=[move_info(move, load, key_names) for move, load in moves],
        moved_bytes=decision.moved_bytes,
        move_price=decision.move_price,
        arrived=dict(islice(decision.arrived.items(), SHOWN_MOVES)),
        verdicts=list(decision.verdicts),
        proposal=decision.proposal,
    )


def _outcome_info(outcome: Outcome) -> schemas.OutcomeInfo:
    return schemas.OutcomeInfo(
        batch=outcome.batch,
        judgement=outcome.measured,
        handed_bytes=outcome.handed_bytes,
        pause_seconds=outcome.pause_seconds,
        duration_seconds=outcome.duration_seconds,
        handed=nlargest(SHOWN_MOVES, outcome.handed, key=lambda transfer: transfer.bytes),
    )


def move_info(
    move: Move, load: float | None, key_names: Mapping[tuple[str, int], str]
) -> schemas.MoveInfo:
    """Return a move with its load and the name of its key."""
    key = None
    if move.key_hash is not None:
        name = key_names.get((move.query, move.key_hash), f"#{move.key_hash:016x}")
        key = printable(name, MAX_KEY_CHARACTERS)
    return schemas.MoveInfo(
        query=move.query,
        before=move.before,
        after=move.after,
        key=key,
        load=load,
        owners_before=list(move.owners_before),
        owners_after=list(move.owners_after),
    )
