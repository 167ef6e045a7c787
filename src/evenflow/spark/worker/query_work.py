"""What one query does in a worker's batch: take in, step, release, save. Run it in its guard."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import index

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Bools, Hashes
from evenflow.model.time import event_times_us
from evenflow.spark.protocol.ledger import DerivedRows, HandOff, query_watermark_us
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.protocol.report import QueryStats
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.spark.worker.inbox import Inbox
from evenflow.spark.worker.intake import Intake
from evenflow.spark.worker.key_counts import count_keys
from evenflow.spark.worker.router import shares_by_key, stream_demand
from evenflow.spark.worker.row_route import row_route, subscription_route
from evenflow.spark.worker.state_share import KeptShare, StateShare, owners_of, splits_of
from evenflow.sql import QueryTask, StepOutput, Task, TaskSplits
from evenflow.sql.result_bound import check_result
from evenflow.storage.bundle import PartRef, pack

MIN_COMPRESSED_BYTES = 4096  # compressing smaller results takes longer than it saves


class QueryWork:
    """One query in one worker's batch."""

    def __init__(self, context: BatchContext, query: Hosted) -> None:
        self.context, self.query = context, query

    def load(self, manifest: bytes, segments: Mapping[str, pa.Table]) -> Task:
        """Return a task with the saved state."""
        task = self.context.open_task(self.query)
        task.load(manifest, segments.__getitem__)
        return task

    def take_in(self, intake: Intake) -> None:
        """Accept state, then begin and end subscriptions."""
        context = self.context
        task = context.task_for_update(self.query)
        share = KeptShare(task, self.query.name, context.worker, context.plan, intake.kept_splits)
        for blob in intake.kept_share(partial(context.open_task, self.query), share):
            task.accept(blob)
        for handoff in intake.handoffs:
            task.accept(handoff.to_pybytes())
        for rows, subscribe in intake.subscriptions:
            self._subscribe(task, rows, subscribe=subscribe)
        context.due_us[self.query.uid] = checked_due_us(task)

    def _subscribe(self, task: Task, rows: pa.Table, *, subscribe: bool) -> None:
        """Begin or end subscriptions; those of a keyed template are split like its rows."""
        if not isinstance(task, QueryTask):
            raise TypeError(f"{self.query.name!r} is not a template, so it has no subscriptions")
        # A subscription that begins again may have had parameters of another worker's keys.
        task.unsubscribe(rows["subscription"])
        if not subscribe:
            return
        route = subscription_route(self.query, self.context.plan)
        if route is not None:
            rows = rows.filter(pa.array(route.needs(rows, self.context.worker)))
        task.subscribe(rows)

    def step(self, inbox: Inbox, backfill: Mapping[str, Sequence[pa.Table]] | None = None) -> None:
        """Process the new rows, or what is due without rows; report results and statistics.

        New rows wait as long as there is a `backfill`, which is processed instead.
        """
        context, query = self.context, self.query
        rows = {stream: self._rows_of(stream, inbox) for stream in query.streams}
        if query.uid in context.entry.slowed:
            rows = self._take_turn(rows)
        for stream, parts in (backfill or {}).items():
            rows[stream] = pa.concat_tables([self._share(stream, part) for part in parts])
        partials = inbox.partials.get(query.uid, {})
        work_rows = sum(len(table) for table in (*rows.values(), *partials.values()))
        watermark_us = context.entry.watermark_of_rows_us(query)
        last_us, due_us = context.entry.watermark_us(query), context.due_us.get(query.uid)
        if not work_rows and (due_us is None or due_us > last_us):
            return
        # This may compile, which is not part of the query's load.
        task = context.task_for_update(query)
        task.splits, task.batch = self._task_splits(), context.entry.batch
        resets = sum(context.entry.watermark_resets.get(stream, 0) for stream in query.streams)
        if task.watermark_resets != resets:
            task.reset_watermark(watermark_us)
            task.watermark_resets = resets
        began = time.thread_time()
        output = task.step(rows, watermark_us, partials)
        groups = task.partial_row_count()
        if last_us > watermark_us and (due_us := checked_due_us(task)) is not None:
            output = self._finish(task, output, last_us) if due_us <= last_us else output
        self._send_outgoing(task)
        if output.rows.schema != query.schema:  # readers of the results rely on it
            raise TypeError(f"the results have the columns {output.rows.schema}")
        rows_out = output.rows.num_rows
        check_result(rows_out, output.rows.nbytes)
        if rows_out and query.replaces is None:
            codec = "lz4" if output.rows.nbytes > MIN_COMPRESSED_BYTES else None
            part = context.result_bundle.add(pack(output.rows, codec=codec))
            context.report.results[query.uid] = (part, rows_out)
            if query.publish:
                self._publish(output.rows, part)
        raw_rows = sum(map(len, rows.values()))
        stats = QueryStats(
            rows_in=raw_rows + sum(pc.sum(part["_n"]).as_py() for part in partials.values()),
            work_rows=work_rows,
            groups=groups,
            uncombined=query.uid in context.entry.combined and raw_rows > 0,
            rows_out=rows_out,
            cpu_seconds=time.thread_time() - began + output.process_cpu_seconds,
            state_bytes=task.state_bytes,
            late_rows=self._late_rows(output.late, rows, watermark_us),
            produced=float(rows_out),
        )
        context.process_cpu_seconds += output.process_cpu_seconds
        context.report.query_stats[query.uid] = stats
        self._count_keys(task, rows, stats)

    def _finish(self, task: Task, output: StepOutput, watermark_us: int) -> StepOutput:
        """Add the results that are due by the watermark of the queries that it reads directly."""
        none = {
            s: self.context.registry.streams[s].schema.empty_table() for s in self.query.streams
        }
        more = task.step(none, watermark_us)
        return StepOutput(
            task.in_result_order(pa.concat_tables([output.rows, more.rows])),
            output.late,
            output.poison,
            output.process_cpu_seconds + more.process_cpu_seconds,
        )

    def _take_turn(self, rows: dict[str, pa.Table]) -> dict[str, pa.Table]:
        """Let new rows of a slowed query wait; return the rows whose turn it is."""
        context, uid = self.context, self.query.uid
        if uid not in context.state.tasks and not any(map(len, rows.values())):
            return rows
        # The watermark of its streams: a row that it makes late would be so without waiting.
        watermark_us = query_watermark_us(self.query, context.entry.watermarks)
        task, until = context.task_for_update(self.query), context.entry.slowed[uid].until
        rows = task.waiting.take_turn(rows, context.entry.batch, watermark_us, until)
        if (count := task.waiting.count()) is not None:
            context.report.waiting[uid] = count
        return rows

    def _task_splits(self) -> TaskSplits:
        """Return the split keys that this worker owns, and those whose panes another one merges."""
        context, name = self.context, self.query.name
        owned = [s for s in splits_of(context.plan, name) if context.worker in s.owners]
        # What a home adds in this batch it may also emit, so that stays until the state moves.
        away = [s.key_hash for s in owned if s.home != context.worker]
        homes = {key: owners_of(context.next_plan, name, key)[0] for key in away}
        leaving = {key: home for key, home in homes.items() if home != context.worker}
        return TaskSplits(context.worker, tuple(owned), leaving)

    def _send_outgoing(self, task: Task) -> None:
        """Send what the last step computed for the homes of split keys."""
        leaving = task.splits.leaving
        for target in sorted(set(leaving.values())):
            keys = np.array([key for key, home in leaving.items() if home == target], np.uint64)
            self._hand_off(target, task.take_outgoing(keys))

    def _late_rows(
        self, late: Mapping[str, int], rows: Mapping[str, pa.Table], watermark_us: int
    ) -> dict[str, int]:
        """Return the late rows of each stream; one that all owners of its key have counts once."""
        counted = {stream: count for stream, count in late.items() if count}
        splits = splits_of(self.context.plan, self.query.name)
        for stream in counted if splits else ():
            route = row_route(self.query, stream, self.context.plan)
            times = event_times_us(rows[stream][self.context.registry.streams[stream].time])
            behind = rows[stream].filter(pc.less(times, watermark_us))
            counted[stream] -= int(route.is_copy(behind, self.context.worker).sum())
        return {stream: count for stream, count in counted.items() if count > 0}

    def _rows_of(self, stream: str, inbox: Inbox) -> pa.Table:
        """Return the rows of a stream that this query gets on this worker."""
        context, uid, spec = self.context, self.query.uid, self.context.registry.streams[stream]
        rows = inbox.rows.get(stream)
        if uid in context.entry.combined:
            rows = inbox.query_rows.get((uid, stream))
        if rows is None or stream in context.entry.already_read.get(uid, ()):
            rows = spec.schema.empty_table()
        # Derived rows were shared out in the batch before, among those who read them then.
        elif spec.derived or not context.stream_demand(stream).is_exact_share(context.worker):
            rows = self._share(stream, rows)
        return pa.concat_tables([rows, *context.direct_rows.read(self.query, stream)])

    def _share(self, stream: str, rows: pa.Table) -> pa.Table:
        """Return the rows of a stream whose keys are routed to this worker."""
        if self.query.name in self.context.plan.placement:
            return rows
        route = row_route(self.query, stream, self.context.plan)
        return rows.filter(pa.array(route.needs(rows, self.context.worker)))

    def _count_keys(self, task: Task, rows: dict[str, pa.Table], stats: QueryStats) -> None:
        context, query = self.context, self.query
        table = context.plan.tables.get(query.name)
        if table is None or query.inferred is None or not context.measure_options.per_key:
            return
        split = [s.key_hash for s in table.splits if context.worker in s.owners]
        own_keys = np.append(
            table.hashes[table.owners == context.worker], np.array(split, np.uint64)
        )
        rows_in = stats.rows_in if query.uid in context.entry.combined else None
        counts = count_keys(
            query.kind, rows, query.inferred, task, stats.rows_out, own_keys, rows_in
        )
        context.report.key_counts[query.uid] = counts
        stats.produced = counts.total_produced

    def _publish(self, rows: pa.Table, part: PartRef) -> None:
        """Give derived rows to those who read them directly, and send them to the workers that
        need them by the plan of the next batch.
        """
        context, query = self.context, self.query
        readers = context.direct_rows.readers(query.name)
        demand = stream_demand(
            context.registry, context.next_plan, context.entry, query.name, readers
        )
        parts = [(worker, part) for worker in sorted(demand.full_stream_workers)]
        for worker, share in shares_by_key(rows.combine_chunks(), demand):
            parts.append((worker, context.state_bundle.add(pack(share))))
        context.report.published += [DerivedRows(query.uid, *placed) for placed in parts]
        if readers:
            # They count as delivered: a plan that takes the readers elsewhere would ship them.
            delivered = context.report.shipped_bytes.get(query.name, 0)
            context.report.shipped_bytes[query.name] = delivered + part.length
            context.direct_rows.publish(query.name, rows.combine_chunks())
            context.rows += len(rows)

    def release(self, targets: list[int]) -> None:
        """Hand over the state that the next plan moves to other workers."""
        context, query = self.context, self.query
        if query.uid not in context.state.tasks:
            return
        task = context.task_for_update(query)
        stays = query.name in context.next_plan.tables
        share = StateShare(task, query.name, context.worker, context.plan, context.next_plan)
        if share.changes:
            for target in targets:
                self._hand_off(target, task.copy_state(partial(share.rows_for, target)))
            if stays:
                task.keep_state(partial(share.rows_for, context.worker))
        elif stays:
            for target in targets:
                self._hand_off(target, task.release(partial(self._moves_to, target)))
        else:
            self._hand_off(targets[0], task.release_all())
        if not stays:
            context.report.subscriptions[query.uid] = 0
            context.state.drop_task(query.uid)
            context.changed_uids.discard(query.uid)

    def _moves_to(self, target: int, keys: Hashes) -> Bools:
        moves: Bools = self.context.next_plan.route(self.query.name, keys) == target
        return moves

    def _hand_off(self, target: int, blob: bytes | None) -> None:
        if blob is not None:
            state = self.context.state_bundle.add(blob)
            self.context.report.handoffs.append(HandOff(self.query.uid, target, state))

    def save(self) -> None:
        """Save the state, as part of the query's load, and note when it is due next.

        What was due up to the watermark has been done. A query that says otherwise is called again
        when the watermark rises: it cannot ask for batches without end.
        """
        context, uid = self.context, self.query.uid
        began = time.thread_time()
        context.state.save_task(uid, context.state_bundle)
        task = context.state.tasks[uid].task
        if isinstance(task, QueryTask) and task.subscriptions is not None:
            context.report.subscriptions[uid] = len(task.subscriptions.store)
        due_us = checked_due_us(task)
        watermark_us = context.entry.watermark_us(self.query)
        context.due_us[uid] = None if due_us is None else max(due_us, watermark_us + 1)
        if uid in context.report.query_stats:
            context.report.query_stats[uid].cpu_seconds += time.thread_time() - began


def checked_due_us(task: Task) -> int | None:
    """Return when a task is due; refuse anything that is not a time, as an operator may return."""
    due_us = task.next_due_us
    if due_us is None:
        return None
    if not -(1 << 63) <= index(due_us) < 1 << 63:
        raise OverflowError("next_due_us must be microseconds that fit 64 bits")
    return index(due_us)
