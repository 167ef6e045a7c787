"""The batch border: from the reports of batch b and what was asked meanwhile to entry b + 1.

Pure functions of values. The driver writes what they return (`driver`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable, place_on_fewest_queries
from evenflow.spark.protocol.ledger import DerivedRows, Entry, HandOff, SubscriptionChange
from evenflow.spark.protocol.registry import Hosted, Registry, join_names
from evenflow.spark.protocol.report import Report
from evenflow.spark.worker.worker_batch import NO_WATERMARK

Watermarks = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NextState:
    """What holds from the next batch on, the plan to prepare for, how many asks are in it."""

    registry: Registry
    plan_number: int
    next_plan_number: int | None = None
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    rollback_plan_number: int | None = None
    commands_applied: int = 0


def drop_failed_queries(reports: Iterable[Report]) -> list[Report]:
    """Return the reports without results and hand-offs of queries that failed on any worker.

    A keyed query's batch counts everywhere or nowhere.
    """
    reports = list(reports)
    failed = {uid for report in reports for uid in report.failed}
    return [
        replace(
            report,
            results={uid: part for uid, part in report.results.items() if uid not in failed},
            handoffs=[sent for sent in report.handoffs if sent[0] not in failed],
            published=[sent for sent in report.published if sent[0] not in failed],
        )
        for report in reports
    ]


def next_entry(
    entry: Entry, registry: Registry, reports: Iterable[Report], asked: NextState
) -> Entry:
    """Return what holds in the batch after `entry`'s; `registry` is the one of `entry`."""
    reports = [report for report in reports if not report.idle]
    uids = {query.uid for query in asked.registry.queries.values()}
    states, due, live = dict(entry.state_refs), dict(entry.due_us), dict(entry.live_files)
    failed, late, poison = dict(entry.quarantined), Counter(entry.late), Counter(entry.poison)
    for report in reports:
        if report.state is not None:
            states[report.worker] = report.state
        live[report.worker], due[report.worker] = report.live_files, report.due_us
        failed.update(report.failed)
        for uid, stats in report.query_stats.items():
            late[uid] += sum(stats.late_rows.values())
        for stream, (_, rows) in report.poison.items():
            poison[stream] += rows
    running = uids - failed.keys()
    return replace(
        entry,
        batch=entry.batch + 1,
        registry_version=asked.registry.version,
        plan_number=asked.plan_number,
        next_plan_number=asked.next_plan_number,
        rollback_plan_number=asked.rollback_plan_number,
        watermarks=next_watermarks(entry, registry, reports),
        previous_watermarks=entry.watermarks,
        state_refs=states,
        due_us={slot: _select_uids(dues, running) for slot, dues in due.items()},
        incoming=tuple(
            HandOff(uid, slot, state)
            for report in reports
            for uid, slot, state in report.handoffs
            if uid in running
        ),
        derived_rows=tuple(
            DerivedRows(uid, slot, rows)
            for report in reports
            for uid, slot, rows in report.published
            if uid in running
        ),
        subscription_changes=tuple(one for one in asked.subscription_changes if one.uid in running),
        quarantined={uid: reason for uid, reason in failed.items() if uid in uids},
        live_files=live,
        commands_applied=asked.commands_applied,
        late={uid: rows for uid, rows in late.items() if rows and uid in uids},
        poison=dict(poison),
    )


def next_watermarks(entry: Entry, registry: Registry, reports: Iterable[Report]) -> dict[str, int]:
    """Return the watermarks of the next batch; they never fall.

    A source's is its delay behind the latest time seen. The rows that a query publishes in batch b
    are read in b + 1, and those of b are no earlier than its watermark in b - 1 says.
    """
    marks = dict(entry.watermarks)
    for report in reports:
        for stream, seen in report.max_event_time_us.items():
            spec = registry.streams[stream]
            if not spec.derived:
                marks[stream] = max(marks.get(stream, NO_WATERMARK), seen - spec.delay_us)
    return _with_derived_watermarks(marks, registry, entry.previous_watermarks)


def eventual_watermarks(marks: Watermarks, registry: Registry) -> dict[str, int]:
    """Return where the watermarks come to rest if no more rows arrive."""
    result = dict(marks)
    for _ in range(1 + sum(spec.derived for spec in registry.streams.values())):
        result = _with_derived_watermarks(result, registry, result)
    return result


def _with_derived_watermarks(
    marks: dict[str, int], registry: Registry, basis: Watermarks
) -> dict[str, int]:
    for name, spec in registry.streams.items():
        if spec.derived and name in registry.queries:
            behind = min(basis.get(s, NO_WATERMARK) for s in registry.queries[name].streams)
            if behind > NO_WATERMARK:
                marks[name] = max(marks.get(name, NO_WATERMARK), behind - spec.delay_us)
    return marks


def has_due_work(entry: Entry, registry: Registry) -> bool:
    """Tell whether a batch without rows would have something to do."""
    if entry.incoming or entry.derived_rows or entry.next_plan_number is not None:
        return True
    marks = eventual_watermarks(entry.watermarks, registry)
    queries = {query.uid: query for query in registry.queries.values()}
    return any(
        due <= min(marks.get(stream, NO_WATERMARK) for stream in queries[uid].streams)
        for dues in entry.due_us.values()
        for uid, due in dues.items()
        if uid in queries
    )


def complete_plan(plan: Plan, present: Plan, registry: Registry) -> Plan:
    """Return a given plan with all it leaves out as it is at present, or refuse it."""
    if plan.workers != present.workers:
        raise InputError(
            f"a plan for {plan.workers} workers was given; there are {present.workers}"
        )
    if len(plan.drained) >= plan.workers or any(w not in range(plan.workers) for w in plan.drained):
        raise InputError(
            f"the plan drains {sorted(plan.drained)} of {plan.workers} workers; one must stay"
        )
    _check_plan_queries(plan, registry)
    placement = {n: w for n, w in present.placement.items() if n not in plan.tables}
    placement |= plan.placement
    tables = {n: t for n, t in present.tables.items() if n not in plan.placement}
    tables |= plan.tables
    for name, worker in placement.items():
        if worker not in range(plan.workers) or worker in plan.drained:
            raise InputError(
                f"the plan puts {name!r} on worker {worker}; active are {list(plan.active)}"
            )
        pin = registry.queries[name].pin
        if pin is not None and worker not in (pin, present.placement.get(name)):
            raise InputError(f"{name!r} is pinned to worker {pin}")
    for name, table in plan.tables.items():
        if not np.isin(table.owners, plan.active).all():
            raise InputError(
                f"the routing table of {name!r} names a worker that is not active; "
                f"active are {list(plan.active)}"
            )
    return Plan(
        plan.workers,
        placement,
        {name: table.without_workers(plan.drained) for name, table in tables.items()},
        plan.drained,
    )


def _check_plan_queries(plan: Plan, registry: Registry) -> None:
    """Refuse a plan that names what is not hosted, or spreads what cannot be."""
    keyed = {q.name for q in registry.queries.values() if q.key_columns is not None}
    whole = registry.queries.keys() - keyed
    either = {name for name in whole if is_promotable(registry.queries[name])}
    strange = (plan.placement.keys() - whole) | (plan.tables.keys() - keyed - either)
    if strange:
        raise InputError(
            f"the plan names {join_names(strange)}; whole queries are {join_names(whole)}, "
            f"keyed ones {join_names(keyed)}"
        )


def check_drain(drain: frozenset[int], plan: Plan, registry: Registry) -> None:
    """Refuse to drain what is not there, every worker, or one that a query is pinned to."""
    active = sorted(set(range(plan.workers)) - drain)
    if any(worker not in range(plan.workers) for worker in drain) or not active:
        raise InputError(
            f"workers {sorted(drain)} cannot be drained: there are 0..{plan.workers - 1}, "
            "and one must stay active"
        )
    for name, query in registry.queries.items():
        if query.pin in drain:
            raise InputError(f"{name!r} is pinned to worker {query.pin}; unpin it before draining")


def with_pins(wanted: Plan | None, present: Plan, registry: Registry) -> Plan | None:
    """Return the plan with every query that is pinned elsewhere on its way there."""
    pins = {name: query.pin for name, query in registry.queries.items() if query.pin is not None}
    astray = {name: pin for name, pin in pins.items() if present.placement.get(name) != pin}
    if not astray:
        return wanted
    base = wanted or replace(present, placement={}, tables={})
    return replace(base, placement={**base.placement, **astray})


def feasible_part(plan: Plan, present: Plan, registry: Registry) -> Plan:
    """Return what of an earlier plan can still be followed."""
    active, names = set(present.active), registry.queries
    placement = {
        name: worker
        for name, worker in plan.placement.items()
        if name in names and worker in active and names[name].pin is None
    }
    tables = {n: t.without_workers(present.drained) for n, t in plan.tables.items() if n in names}
    whole = {name for name in names if names[name].key_columns is None}
    return replace(
        present,
        placement={name: worker for name, worker in placement.items() if name in whole},
        tables={n: t for n, t in tables.items() if n not in whole or is_promotable(names[n])},
    )


def is_promotable(query: Hosted) -> bool:
    """Tell whether a whole query may become keyed by a plan."""
    free = query.key_columns is None and query.pin is None
    return free and query.form == "query" and query.inferred is not None


def plan_with_query(plan: Plan, query: Hosted, worker: int | None) -> Plan:
    """Return the plan with one more query; a whole one without a worker is placed by `place_waiting_queries`."""
    if query.key_columns is not None:
        return replace(plan, tables={**plan.tables, query.name: RoutingTable()})
    if worker is None:
        return plan
    return replace(plan, placement={**plan.placement, query.name: worker})


StreamsByQuery = Mapping[str, tuple[str, ...]]
PlaceArrivals = Callable[[Plan, StreamsByQuery, StreamsByQuery], Mapping[str, int]]


def place_on_fewest(
    plan: Plan, waiting: StreamsByQuery, _hosted: StreamsByQuery
) -> Mapping[str, int]:
    """Place each query on the active worker with the fewest."""
    return place_on_fewest_queries(plan, waiting)


def place_waiting_queries(plan: Plan, registry: Registry, arrive: PlaceArrivals) -> Plan:
    """Return the plan with a worker for every whole query that has none yet.

    `arrive` is told the plan, the streams of the queries that wait and those of all whole ones.
    """
    waiting = registry.queries.keys() - plan.placement.keys() - plan.tables.keys()
    if not waiting:
        return plan
    streams = {name: registry.queries[name].streams for name in sorted(waiting)}
    hosted = {name: registry.queries[name].streams for name in sorted(plan.placement)}
    return replace(plan, placement={**plan.placement, **arrive(plan, streams, hosted)})


def plan_without_query(plan: Plan, name: str) -> Plan:
    """Return the plan without a query."""
    placement = {query: worker for query, worker in plan.placement.items() if query != name}
    tables = {query: table for query, table in plan.tables.items() if query != name}
    return replace(plan, placement=placement, tables=tables)


def _select_uids(dues: Mapping[str, int], uids: set[str]) -> dict[str, int]:
    return {uid: due for uid, due in dues.items() if uid in uids}
