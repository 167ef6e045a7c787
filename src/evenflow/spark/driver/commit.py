"""The commit step: from the reports of batch b to entry b + 1 of the ledger. Pure functions."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenflow.model.time import NO_WATERMARK_US
from evenflow.spark.driver.next_backfills import catch_up_paces, hold_queries
from evenflow.spark.driver.replacement import (
    inherited_uids,
    next_filling,
    rename_changes,
    rename_entry,
    rename_kept_states,
    rename_report,
)
from evenflow.spark.driver.slowed_queries import Pace, next_slowed, waiting_totals
from evenflow.spark.protocol.backfill import Backfill
from evenflow.spark.protocol.ledger import (
    Entry,
    KeptState,
    ProposalRef,
    SubscriptionChange,
    query_watermark_us,
)
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report

Watermarks = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextState:
    """Registry and plan numbers for the next entry, and how many commands they include.

    resumed      uids of quarantined queries that run again
    kept_states  states of the queries that failed in this batch
    combined     uids of the aggregates whose rows the router combines
    watermark_resets  source -> its watermark from the next batch on
    paces        uids of the queries that are slowed -> how far they may go
    block_list   the list of merged results
    proposal     the plan that waits for approval
    backfills    rows that queries take before those of their streams
    """

    registry: Registry
    plan_number: int
    next_plan_number: int | None = None
    rollback_plan_number: int | None = None
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    commands_applied: int = 0
    resumed: frozenset[str] = frozenset()
    kept_states: Mapping[str, KeptState] = field(default_factory=dict)
    combined: frozenset[str] = frozenset()
    watermark_resets: Mapping[str, int] = field(default_factory=dict)
    paces: Mapping[str, Pace] = field(default_factory=dict)
    block_list: str | None = None
    proposal: ProposalRef | None = None
    backfills: Mapping[str, Backfill] = field(default_factory=dict)


def drop_failed_queries(reports: Iterable[Report]) -> list[Report]:
    """Drop results, hand-offs and published rows of queries that failed on any worker."""
    reports = list(reports)
    failed = {uid for report in reports for uid in report.failed}
    return [
        replace(
            report,
            results={uid: part for uid, part in report.results.items() if uid not in failed},
            handoffs=[handoff for handoff in report.handoffs if handoff.uid not in failed],
            published=[rows for rows in report.published if rows.uid not in failed],
        )
        for report in reports
    ]


def next_entry(
    entry: Entry, registry: Registry, reports: Iterable[Report], next_state: NextState
) -> Entry:
    """Return the entry of the next batch; `registry` is the one in force in `entry`."""
    reports = [report for report in reports if not report.idle]
    if uids := inherited_uids(registry, next_state.registry):
        entry, reports = rename_entry(entry, uids), [rename_report(r, uids) for r in reports]
        next_state = replace(
            next_state,
            subscription_changes=rename_changes(next_state.subscription_changes, uids),
            kept_states=rename_kept_states(next_state.kept_states, uids),
            backfills={uids.get(uid, uid): b for uid, b in next_state.backfills.items()},
        )
    hosted = next_state.registry.by_uid.keys()
    state_refs, due_us = dict(entry.state_refs), dict(entry.due_us)
    live_files, quarantined = dict(entry.live_files), dict(entry.quarantined)
    late, poison = Counter(entry.late), Counter(entry.poison)
    ahead, set_aside_bytes = Counter(entry.ahead), Counter(entry.set_aside_bytes)
    subscriptions = {uid: dict(counts) for uid, counts in entry.subscriptions.items()}
    for report in reports:
        for uid, number in report.subscriptions.items():
            subscriptions.setdefault(uid, {})[report.worker] = number
        if report.state_ref is not None:
            state_refs[report.worker] = report.state_ref
        live_files[report.worker], due_us[report.worker] = report.live_files, report.due_us
        quarantined.update(report.failed)
        for uid, stats in report.query_stats.items():
            late[uid] += sum(stats.late_rows.values())
        for stream, count in report.set_aside.items():
            poison[stream] += count.invalid + count.ahead
            ahead[stream] += count.ahead
            set_aside_bytes[stream] += count.stored_bytes
    quarantined = {
        uid: reason
        for uid, reason in quarantined.items()
        if uid in hosted and uid not in next_state.resumed
    }
    running = hosted - quarantined.keys()
    kept_states, changes = next_kept_states(entry, next_state, hosted)
    totals = waiting_totals(entry, reports)
    backfills = {uid: b for uid, b in next_state.backfills.items() if uid in hosted}
    slowed = next_slowed(
        entry,
        totals,
        {**catch_up_paces(entry, backfills, totals), **next_state.paces},
        running=running,
        quarantined=quarantined,
        resumed=next_state.resumed,
    )
    slowed = hold_queries(slowed, entry, backfills, totals, quarantined)
    watermarks, previous = next_watermarks(entry, registry, reports), entry.watermarks
    resets = dict(entry.watermark_resets)
    if next_state.watermark_resets:
        watermarks, previous = reset_watermarks(watermarks, previous, registry, next_state)
        for stream in streams_after(registry, next_state.watermark_resets):
            resets[stream] = resets.get(stream, 0) + 1
    return Entry(
        batch=entry.batch + 1,
        epoch=entry.epoch,
        driver=entry.driver,
        fences=entry.fences,
        registry_version=next_state.registry.version,
        last_good_version=entry.registry_version,
        plan_number=next_state.plan_number,
        next_plan_number=next_state.next_plan_number,
        rollback_plan_number=next_state.rollback_plan_number,
        watermarks=watermarks,
        previous_watermarks=previous,
        watermark_resets=resets,
        state_refs=state_refs,
        live_files=live_files,
        due_us={
            worker: {uid: time_us for uid, time_us in by_uid.items() if uid in running}
            for worker, by_uid in due_us.items()
        },
        incoming=tuple(h for report in reports for h in report.handoffs if h.uid in running),
        derived_rows=tuple(d for report in reports for d in report.published if d.uid in running),
        subscription_changes=tuple(change for change in changes if change.uid in running),
        quarantined=quarantined,
        kept_states=kept_states,
        commands_applied=next_state.commands_applied,
        late={uid: rows for uid, rows in late.items() if rows and uid in hosted},
        poison=dict(poison),
        combined=(next_state.combined & running) - slowed.keys(),
        ahead=dict(ahead),
        set_aside_bytes=dict(set_aside_bytes),
        subscriptions={
            uid: {worker: n for worker, n in counts.items() if n}
            for uid, counts in subscriptions.items()
            if uid in hosted and any(counts.values())
        },
        slowed=slowed,
        block_list=next_state.block_list,
        proposal=next_state.proposal,
        filling=next_filling(entry, next_state.registry, watermarks),
        backfills=backfills,
    )


def next_kept_states(
    entry: Entry, next_state: NextState, hosted: Container[str]
) -> tuple[dict[str, KeptState], list[SubscriptionChange]]:
    """Return the kept states of the next entry, and the subscription changes to apply.

    Changes of a quarantined query wait with its state.
    """
    waiting = {uid: kept for uid, kept in entry.kept_states.items() if uid in entry.quarantined}
    kept_states = {
        uid: replace(
            kept,
            subscription_changes=kept.subscription_changes
            + tuple(change for change in next_state.subscription_changes if change.uid == uid),
        )
        for uid, kept in {**waiting, **next_state.kept_states}.items()
        if uid in hosted
    }
    changes = [c for c in next_state.subscription_changes if c.uid not in kept_states]
    changes += [
        c
        for uid in next_state.resumed
        if uid in kept_states
        for c in kept_states[uid].subscription_changes
    ]
    return kept_states, changes


def next_watermarks(entry: Entry, registry: Registry, reports: Iterable[Report]) -> dict[str, int]:
    """Return the watermarks of the next batch; they never fall.

    A source's watermark is its latest event time minus its delay. Derived rows that are read in
    batch b + 1 were published in b, and can be as early as their query's watermark in b - 1.
    That of a query with direct reads may have been above that of its streams.
    """
    watermarks = dict(entry.watermarks)
    for report in reports:
        for stream, latest_us in report.max_event_time_us.items():
            spec = registry.streams[stream]
            if not spec.derived:
                _raise_watermark(watermarks, stream, latest_us - spec.delay_us)
    held_us = {
        uid: slowed.previous_held_us
        for uid, slowed in entry.slowed.items()
        if slowed.previous_held_us is not None and uid not in entry.quarantined
    }
    _raise_derived(watermarks, registry, entry.previous_watermarks, held_us, entry.reached_us)
    return watermarks


def reset_watermarks(
    watermarks: Watermarks, previous: Watermarks, registry: Registry, next_state: NextState
) -> tuple[dict[str, int], dict[str, int]]:
    """Set sources back, and the streams derived from them; also as of the batch before."""
    resets = next_state.watermark_resets
    lowered = {**watermarks, **resets}
    derived = streams_after(registry, resets) - resets.keys()
    for stream in derived:
        lowered.pop(stream, None)
    lowered = eventual_watermarks(lowered, registry)
    lowered |= {s: min(lowered[s], watermarks[s]) for s in derived if s in watermarks}
    changed = {stream: lowered[stream] for stream in (*resets, *derived) if stream in lowered}
    before = {s: min(us, changed.get(s, us)) for s, us in previous.items()}
    return lowered, before


def streams_after(registry: Registry, sources: Iterable[str]) -> set[str]:
    """Return streams and everything that is derived from them."""
    found, size = set(sources), 0
    while len(found) > size:
        size = len(found)
        found |= {
            name
            for name, query in registry.queries.items()
            if query.publish and not found.isdisjoint(query.streams)
        }
    return found


def eventual_watermarks(watermarks: Watermarks, registry: Registry) -> dict[str, int]:
    """Return the watermarks that are reached if no more rows arrive."""
    result = dict(watermarks)
    for _ in range(1 + sum(spec.derived for spec in registry.streams.values())):
        _raise_derived(result, registry, result)
    return result


def _raise_derived(
    watermarks: dict[str, int],
    registry: Registry,
    inputs: Watermarks,
    held_us: Mapping[str, int] | None = None,
    reached_us: Mapping[str, int] | None = None,
) -> None:
    """Raise the watermarks of derived streams to those that `inputs` give their queries.

    `held_us` are the watermarks of slowed queries, by uid; `reached_us` those above `inputs`.
    """
    for name, spec in registry.streams.items():
        if spec.derived and name in registry.queries:
            query = registry.queries[name]
            query_us = query_watermark_us(query, inputs)
            query_us = min(query_us, (held_us or {}).get(query.uid, query_us))
            query_us = max(query_us, (reached_us or {}).get(query.uid, query_us))
            if query_us > NO_WATERMARK_US:
                _raise_watermark(watermarks, name, query_us - spec.delay_us)


def _raise_watermark(watermarks: dict[str, int], stream: str, to_us: int) -> None:
    watermarks[stream] = max(watermarks.get(stream, NO_WATERMARK_US), to_us)


def has_due_work(entry: Entry, registry: Registry) -> bool:
    """Return whether a batch without new rows would have something to do."""
    if entry.incoming or entry.derived_rows or entry.resumed or entry.waiting:
        return True
    if entry.next_plan_number is not None or entry.backfilling:
        return True
    watermarks = eventual_watermarks(entry.watermarks, registry)
    return any(
        time_us <= query_watermark_us(registry.by_uid[uid], watermarks)
        for by_uid in entry.due_us.values()
        for uid, time_us in by_uid.items()
        if uid in registry.by_uid
    )
