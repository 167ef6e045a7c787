"""What one query does in a worker's batch: take in, step, release, save. Run it in its guard."""

import time
from collections.abc import Mapping
from functools import partial
from operator import index

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Bools, Hashes
from evenflow.spark.protocol.ledger import DerivedRows, HandOff, query_watermark_us
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.protocol.report import QueryStats
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.spark.worker.inbox import Inbox
from evenflow.spark.worker.intake import Intake
from evenflow.spark.worker.key_counts import count_keys
from evenflow.spark.worker.router import RowSplit, row_split, split_by_key, stream_demand
from evenflow.sql import QueryTask, Task
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
        is_whole = self.query.name in context.plan.placement
        open_task = partial(context.open_task, self.query)
        for blob in intake.kept_share(open_task, None if is_whole else self._owns):
            task.accept(blob)
        for handoff in intake.handoffs:
            task.accept(handoff.to_pybytes())
        for rows, subscribe in intake.subscriptions:
            self._subscribe(task, rows, subscribe=subscribe)
        context.due_us[self.query.uid] = checked_due_us(task)

    def _owns(self, keys: Hashes) -> Bools:
        owns: Bools = self.context.plan.route(self.query.name, keys) == self.context.worker
        return owns

    def _subscribe(self, task: Task, rows: pa.Table, *, subscribe: bool) -> None:
        """Begin or end subscriptions; those of a keyed template are split like its rows."""
        if not isinstance(task, QueryTask):
            raise TypeError(f"{self.query.name!r} is not a template, so it has no subscriptions")
        # A subscription that begins again may have had parameters of another worker's keys.
        task.unsubscribe(rows["subscription"])
        if not subscribe:
            return
        if self.query.subscription_key is not None:
            split = RowSplit(self.query.subscription_key, self.query.name, self.context.plan)
            rows = rows.filter(pa.array(split.route(rows) == self.context.worker))
        task.subscribe(rows)

    def step(self, inbox: Inbox) -> None:
        """Process the new rows, or what is due without rows; report results and statistics."""
        context, query = self.context, self.query
        rows = {stream: self._rows_of(stream, inbox) for stream in query.streams}
        partials = inbox.partials.get(query.uid, {})
        work_rows = sum(len(table) for table in (*rows.values(), *partials.values()))
        watermark_us = query_watermark_us(query, context.entry.watermarks)
        due_us = context.due_us.get(query.uid)
        if not work_rows and (due_us is None or due_us > watermark_us):
            return
        # This may compile, which is not part of the query's load.
        task = context.task_for_update(query)
        began = time.thread_time()
        output = task.step(rows, watermark_us, partials)
        if output.rows.schema != query.schema:  # readers of the results rely on it
            raise TypeError(f"the results have the columns {output.rows.schema}")
        rows_out = output.rows.num_rows
        if rows_out:
            compress = output.rows.nbytes > MIN_COMPRESSED_BYTES
            part = context.result_bundle.add(pack(output.rows, compress=compress))
            context.report.results[query.uid] = (part, rows_out)
            if query.publish:
                self._publish(output.rows, part)
        raw_rows = sum(map(len, rows.values()))
        stats = QueryStats(
            rows_in=raw_rows + sum(pc.sum(part["_n"]).as_py() for part in partials.values()),
            work_rows=work_rows,
            groups=task.partial_row_count(),
            uncombined=query.uid in context.entry.combined and raw_rows > 0,
            rows_out=rows_out,
            cpu_seconds=time.thread_time() - began,
            state_bytes=task.state_bytes,
            late_rows={stream: count for stream, count in output.late.items() if count},
            produced=float(rows_out),
        )
        context.report.query_stats[query.uid] = stats
        self._count_keys(task, rows, stats)

    def _rows_of(self, stream: str, inbox: Inbox) -> pa.Table:
        """Return the rows of a stream that this query gets on this worker."""
        context, rows = self.context, inbox.rows.get(stream)
        if self.query.uid in context.entry.combined:
            rows = inbox.query_rows.get((self.query.uid, stream))
        if rows is None:
            return context.registry.streams[stream].schema.empty_table()
        if self.query.name in context.plan.placement:
            return rows
        if context.stream_demand(stream).is_exact_share(context.worker):
            return rows
        split = row_split(self.query, stream, context.plan)
        return rows.filter(pa.array(split.route(rows) == context.worker))

    def _count_keys(self, task: Task, rows: dict[str, pa.Table], stats: QueryStats) -> None:
        context, query = self.context, self.query
        table = context.plan.tables.get(query.name)
        if table is None or query.inferred is None or not context.measure_options.per_key:
            return
        own_keys = table.hashes[table.owners == context.worker]
        rows_in = stats.rows_in if query.uid in context.entry.combined else None
        counts = count_keys(
            query.kind, rows, query.inferred, task, stats.rows_out, own_keys, rows_in
        )
        context.report.key_counts[query.uid] = counts
        stats.produced = counts.total_produced

    def _publish(self, rows: pa.Table, part: PartRef) -> None:
        """Send derived rows to the workers that need them by the plan of the next batch."""
        context, query = self.context, self.query
        demand = stream_demand(context.registry, context.next_plan, context.entry, query.name)
        parts = [(worker, part) for worker in sorted(demand.full_stream_workers)]
        for worker, share in split_by_key(rows.combine_chunks(), demand):
            parts.append((worker, context.exchange_bundle.add(pack(share))))
        context.report.published += [DerivedRows(query.uid, *placed) for placed in parts]

    def release(self, target: int) -> None:
        """Hand over the state that the next plan moves to another worker."""
        context, query = self.context, self.query
        if query.uid not in context.state.tasks:
            return
        if query.name in context.next_plan.placement:
            blob = context.state.tasks[query.uid].task.release_all()
            context.state.drop_task(query.uid)
            context.changed_uids.discard(query.uid)
        else:
            task = context.task_for_update(query)
            blob = task.release(lambda keys: context.next_plan.route(query.name, keys) == target)
        if blob is not None:
            state = context.exchange_bundle.add(blob)
            context.report.handoffs.append(HandOff(query.uid, target, state))

    def save(self) -> None:
        """Save the state, as part of the query's load, and note when it is due next.

        What was due up to the watermark has been done. A query that says otherwise is called again
        when the watermark rises: it cannot ask for batches without end.
        """
        context, uid = self.context, self.query.uid
        began = time.thread_time()
        context.state.save_task(uid, context.state_bundle)
        due_us = checked_due_us(context.state.tasks[uid].task)
        watermark_us = query_watermark_us(self.query, context.entry.watermarks)
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
