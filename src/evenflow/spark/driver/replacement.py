"""Replace a query by another definition, without a gap in its results or a result twice.

If both keep the same state, the new definition goes on with it from the next batch. Otherwise it
runs beside the old one, as `NAME__next`, without giving results, until it has seen every row that
can still count; then it takes the old one's place, between two batches. Pure, but for reading
indexes of state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.codes import QueryForm
from evenflow.spark.driver.plan_changes import plan_with_query, plan_without_query
from evenflow.spark.driver.submission import CheckedProgram, Submission
from evenflow.spark.protocol.ledger import (
    Entry,
    KeptState,
    Ledger,
    SubscriptionChange,
    query_watermark_us,
)
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.report import Report
from evenflow.spark.worker.state_share import splits_of
from evenflow.spark.worker.worker_state import read_index
from evenflow.sql import CompiledQuery, Program
from evenflow.sql.state_plan import retained_us, same_state

Value = TypeVar("Value")


def next_name(name: str) -> str:
    """Return the name of a query that will take the place of another one."""
    return f"{name}__next"


@dataclass(frozen=True, slots=True)
class ReplaceQuery:
    """Give a query another definition."""

    submission: Submission

    def check(self, registry: Registry, plan: Plan) -> None:
        """Refuse what cannot be replaced."""
        name = self.submission.name
        before = registry.query(name)
        if before.replaces is not None or next_name(name) in registry.queries:
            waiting = name if before.replaces is not None else next_name(name)
            raise InputError(
                f"{waiting!r} is about to take the place of another query; wait, or cancel it"
            )
        if self.submission.form != before.form or before.form == QueryForm.OPERATOR:
            raise InputError(
                f"{name!r} is {_article(before.form)}, and only SQL can be replaced by SQL; cancel "
                "it, then submit another one"
            )

    def compile_apart(self, registry: Registry) -> CheckedProgram:
        """Compile the new definition in a process with limits."""
        return self.submission.compile_apart(registry.without_stream(self.submission.name))

    def apply(
        self, registry: Registry, plan: Plan, checked: CheckedProgram | None = None
    ) -> tuple[Registry, Plan]:
        """Replace the query, or host the new one beside it, or refuse."""
        self.check(registry, plan)
        before, submission = registry.query(self.submission.name), self.submission
        others = registry.without_stream(before.name)
        if checked is not None and checked.is_current(others):
            program = checked.program
        else:
            program = submission.compile(others)
        hosted = replace(
            submission.hosted_query(program, registry),
            continues=(*before.continues, before.uid) if program.schema == before.schema else (),
        )
        if not _keeps_state(before, program, submission, others):
            return self._beside(registry, plan, before, hosted, program)
        stream = submission.published_stream(program) if submission.publish else None
        if registry.streams.get(before.name) != stream and registry.readers(before.name):
            readers = ", ".join(query.name for query in registry.readers(before.name))
            raise InputError(f"{before.name!r} has other columns then, and is read by {readers}")
        hosted = replace(hosted, inherits=(*before.inherits, before.uid))
        return others.with_query(hosted, stream), plan

    def _beside(
        self,
        registry: Registry,
        plan: Plan,
        before: Hosted,
        hosted: Hosted,
        program: CompiledQuery,
    ) -> tuple[Registry, Plan]:
        if before.form == QueryForm.TEMPLATE or before.publish or not isinstance(program, Program):
            kind = "a template" if before.form == QueryForm.TEMPLATE else "published"
            raise InputError(
                f"{before.name!r} is {kind}, and the new definition keeps other state; cancel it, "
                "then submit the new one"
            )
        hosted = replace(
            hosted,
            name=next_name(before.name),
            replaces=before.name,
            retained_us=retained_us(program.plan),
        )
        return registry.with_query(hosted), plan_with_query(plan, hosted, hosted.pin)


def _article(form: str) -> str:
    return f"an {form}" if form[0] in "aeiou" else f"a {form}"


def _keeps_state(
    before: Hosted, program: CompiledQuery, submission: Submission, registry: Registry
) -> bool:
    """Tell whether a program can go on with the state of a query, where its plan has put it."""
    if before.key != submission.key or before.inferred != program.key:
        return False
    earlier = replace(submission, text=before.text).compile(registry)
    if not isinstance(earlier, Program) or not isinstance(program, Program):
        return False
    return same_state(earlier.plan, program.plan)


def switch_filled(registry: Registry, plan: Plan, entry: Entry) -> tuple[Registry, Plan]:
    """Let queries that have seen all rows that count take the places they wait for.

    The batch of `entry` has been run: both definitions have processed the same rows, up to the same
    watermark. So every result either came from the old one already, or comes from the new one.
    """
    for query in list(registry.queries.values()):
        if query.replaces is None or not _is_filled(query, registry, entry):
            continue
        registry = registry.with_switched(query.name)
        moved = plan_without_query(plan_without_query(plan, query.replaces), query.name)
        placement, tables = dict(moved.placement), dict(moved.tables)
        if query.name in plan.placement:
            placement[query.replaces] = plan.placement[query.name]
        if query.name in plan.tables:
            tables[query.replaces] = plan.tables[query.name]
        plan = replace(moved, placement=placement, tables=tables)
    return registry, plan


def _is_filled(query: Hosted, registry: Registry, entry: Entry) -> bool:
    uid, before = query.uid, registry.queries.get(str(query.replaces))
    waits = {uid} if before is None else {uid, before.uid}
    if uid not in entry.filling or uid in entry.quarantined or waits & entry.slowed.keys():
        return False
    if before is not None:
        streams_us = query_watermark_us(before, entry.watermarks)
        if entry.watermark_us(before) > streams_us:
            return False  # direct reads took it further than the one that follows it
    return entry.watermark_us(query) >= entry.filling[uid]


def next_filling(entry: Entry, registry: Registry, watermarks: Mapping[str, int]) -> dict[str, int]:
    """Return the watermark at which each query that takes another's place has seen enough.

    It misses rows up to the latest time before its first batch.
    """
    filling = {}
    for query in registry.queries.values():
        if query.replaces is None:
            continue
        latest = [
            watermarks[source] + registry.streams[source].delay_us
            for source in registry.sources_of(query)
            if source in watermarks
        ]
        missed_us = max(latest, default=None)
        ready_us = -(1 << 62) if missed_us is None else missed_us + query.retained_us + 1
        filling[query.uid] = entry.filling.get(query.uid, ready_us)
    return filling


def inherited_uids(before: Registry, after: Registry) -> dict[str, str]:
    """Return old uid -> new uid, of queries that go on with the state of an earlier definition."""
    arrived = [query for uid, query in after.by_uid.items() if uid not in before.by_uid]
    return {uid: query.uid for query in arrived for uid in query.inherits if uid in before.by_uid}


def rename_entry(entry: Entry, uids: Mapping[str, str]) -> Entry:
    """Return an entry as if its queries had had their new uids, but for where state is stored."""
    return replace(
        entry,
        due_us={worker: _renamed(by_uid, uids) for worker, by_uid in entry.due_us.items()},
        backfills=_renamed(entry.backfills, uids),
        quarantined=_renamed(entry.quarantined, uids),
        kept_states=rename_kept_states(entry.kept_states, uids),
        late=_renamed(entry.late, uids),
        subscriptions=_renamed(entry.subscriptions, uids),
        slowed=_renamed(entry.slowed, uids),
        direct_reads=_renamed(entry.direct_reads, uids),
        already_read=_renamed(entry.already_read, uids),
        reached_us=_renamed(entry.reached_us, uids),
    )


def rename_report(report: Report, uids: Mapping[str, str]) -> Report:
    """Return a report as if its queries had had their new uids."""
    return replace(
        report,
        due_us=_renamed(report.due_us, uids),
        query_stats=_renamed(report.query_stats, uids),
        handoffs=[replace(h, uid=uids.get(h.uid, h.uid)) for h in report.handoffs],
        published=[replace(rows, uid=uids.get(rows.uid, rows.uid)) for rows in report.published],
        failed=_renamed(report.failed, uids),
        subscriptions=_renamed(report.subscriptions, uids),
        waiting=_renamed(report.waiting, uids),
    )


def rename_kept_states(
    kept_states: Mapping[str, KeptState], uids: Mapping[str, str]
) -> dict[str, KeptState]:
    """Return kept states under the new uids; each still says under which uid it is stored."""
    return {
        uids.get(uid, uid): replace(
            kept,
            uid=kept.uid or uid,
            subscription_changes=rename_changes(kept.subscription_changes, uids),
        )
        for uid, kept in kept_states.items()
    }


def rename_changes(
    changes: Iterable[SubscriptionChange], uids: Mapping[str, str]
) -> tuple[SubscriptionChange, ...]:
    """Return changes of subscriptions under the new uids of their templates."""
    return tuple(replace(change, uid=uids.get(change.uid, change.uid)) for change in changes)


def _renamed(by_uid: Mapping[str, Value], uids: Mapping[str, str]) -> dict[str, Value]:
    return {uids.get(uid, uid): value for uid, value in by_uid.items()}


def with_inherited_states(
    ledger: Ledger, following: Entry, before: Registry, after: Registry
) -> Entry:
    """Return the next entry, in which queries take the state stored under their old uids."""
    uids = inherited_uids(before, after)
    if not uids:
        return following
    indexes = {
        worker: read_index(ledger.store, ref)[1] for worker, ref in following.state_refs.items()
    }
    plan, kept = ledger.plan(following.plan_number), dict(following.kept_states)
    for old, new in uids.items():
        if new in following.quarantined:
            continue
        found = {worker: index[old] for worker, index in indexes.items() if old in index}
        refs = {worker: following.state_refs[worker] for worker in found}
        files = {ref.file for task in found.values() for ref in task.segments.values()}
        kept[new] = KeptState(
            state_refs=refs,
            files=tuple(sorted(files | {ref.file for ref in refs.values()})),
            incoming=(),
            splits=splits_of(plan, after.by_uid[new].name),
            uid=old,
        )
    return replace(following, kept_states=kept)
