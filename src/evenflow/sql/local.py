"""Run a continuous query over Arrow tables in this process, without Spark."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.model.limits import MemoryLimits
from evenflow.model.time import NO_WATERMARK_US, event_times_us, valid_time_mask
from evenflow.sql.catalog import Catalog, Stream
from evenflow.sql.engine import Engine
from evenflow.sql.function_declaration import declare_function
from evenflow.sql.program import Program, compile_query
from evenflow.sql.spill import EngineMemory
from evenflow.sql.types import canonical_type
from evenflow.sql.user_functions import UserCallable

END_WATERMARK_US = 1 << 60  # past all valid event times
_QUERY = "query"


def run_local(
    sql: str,
    streams: Mapping[str, pa.Table],
    *,
    time: str | Mapping[str, str],
    watermark: str = "0 seconds",
    tables: Mapping[str, pa.Table] | None = None,
    functions: Mapping[str, tuple[UserCallable, str]] | None = None,
    batches: int = 1,
    workers: int = 1,
) -> pa.Table:
    """Return all results of a continuous query, as a run over the same rows gives them.

    `time` is the event-time column of every stream, or a column per stream. The rows of each stream
    are cut into `batches` in the order given; the watermark advances between batches, so rows that
    are late by more than `watermark` are dropped. `functions` are those of the user, by name, each
    with the Spark type that it returns. With several `workers`, rows go by the query's
    inferred key as in a run; a query without a key runs on one worker. At the end, everything that
    is still open is emitted. The order of the results is not defined.

    >>> ts = pa.array([0, 5_000_000, 10_000_000], pa.timestamp("us", "UTC"))
    >>> sql = "SELECT count(*) AS n FROM trades GROUP BY window(ts, '10 seconds')"
    >>> run_local(sql, {"trades": pa.table({"ts": ts})}, time="ts")["n"].to_pylist()
    [2, 1]
    """
    if batches < 1 or workers < 1:
        raise InputError(f"batches and workers must be at least 1, got {batches} and {workers}")
    times = dict.fromkeys(streams, time) if isinstance(time, str) else time
    if missing := [name for name in streams if name not in times]:
        raise InputError(f"stream {missing[0]!r} has no event-time column; name it in `time`")
    if unknown := [name for name in times if name not in streams]:
        raise InputError(f"`time` names {unknown[0]!r}, which is not among the streams")
    for name, table in {**streams, **(tables or {})}.items():
        if not isinstance(table, pa.Table):
            kind = type(table).__name__
            raise InputError(
                f"{name!r} must be a pyarrow.Table, got {kind}; see pyarrow.table(...)"
            )
    delay_us = duration_us(watermark, "watermark")
    given = {name: _to_canonical_types(table) for name, table in streams.items()}
    references = {name: _to_canonical_types(table) for name, table in (tables or {}).items()}
    catalog = Catalog(
        {name: Stream(table.schema, times[name], delay_us) for name, table in given.items()},
        {name: table.schema for name, table in references.items()},
        {n: declare_function(n, f, kind, ()) for n, (f, kind) in (functions or {}).items()},
    )
    program = compile_query(_QUERY, sql, catalog)
    engine = Engine(memory=EngineMemory.by_limits(MemoryLimits(), processes=1))
    try:
        tasks = [program.open(engine, references) for _ in range(workers)]
        results = [program.schema.empty_table()]
        for batch, (rows, watermark_us) in enumerate(_batches(program, catalog, given, batches)):
            for task, share in zip(tasks, _split(program, rows, workers), strict=True):
                task.batch = batch
                results.append(task.step(share, watermark_us).rows)
        return pa.concat_tables(results)
    finally:
        engine.close()


def _to_canonical_types(table: pa.Table) -> pa.Table:
    schema = pa.schema([(field.name, canonical_type(field.type)) for field in table.schema])
    return table.cast(schema, safe=False)  # truncates nanoseconds, as Spark does


def _batches(
    program: Program, catalog: Catalog, given: Mapping[str, pa.Table], batches: int
) -> Iterator[tuple[dict[str, pa.Table], int]]:
    """Yield the rows of each batch and the watermark before it, at last no rows and the end."""
    watermarks = dict.fromkeys(program.streams, NO_WATERMARK_US)
    for batch in range(batches):
        rows, before_us = {}, min(watermarks.values())
        for name in program.streams:
            begin, end = (len(given[name]) * at // batches for at in (batch, batch + 1))
            part, stream = given[name].slice(begin, end - begin), catalog.streams[name]
            times_us = event_times_us(part[stream.time])
            valid = valid_time_mask(times_us)
            rows[name] = part.filter(valid).select(program.reads[name])
            newest_us = pc.max(times_us.filter(valid)).as_py()
            if newest_us is not None:
                watermarks[name] = max(watermarks[name], newest_us - stream.delay_us)
        yield rows, before_us
    yield {}, END_WATERMARK_US


def _split(
    program: Program, rows: Mapping[str, pa.Table], workers: int
) -> list[dict[str, pa.Table]]:
    """Return the rows of each worker, routed by key as in a run; all to the first without a key."""
    if program.key is None or workers == 1:
        return [dict(rows), *({} for _ in range(workers - 1))]
    plan = Plan(workers, tables={_QUERY: RoutingTable()})
    shares: list[dict[str, pa.Table]] = [{} for _ in range(workers)]
    for name, table in rows.items():
        routed = plan.route(_QUERY, hash_keys(*(table[column] for column in program.key[name])))
        for worker, share in enumerate(shares):
            share[name] = table.filter(pa.array(routed == worker))
    return shares
