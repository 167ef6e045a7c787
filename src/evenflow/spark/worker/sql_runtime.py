"""Runs compiled queries in a worker process, with a limit on the time of each step."""

import faulthandler
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from numba.core import event

from evenflow.model.limits import MemoryLimits
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.sql_catalog import sql_catalog
from evenflow.spark.protocol.step_limits import MAX_SECONDS, overrun_seconds
from evenflow.sql import Catalog, CompiledQuery, Engine, Task, compile_definition
from evenflow.sql.deadline_watch import DeadlineWatch
from evenflow.sql.isolated_operator import IsolatedOperator
from evenflow.sql.spill import EngineMemory
from evenflow.sql.tasks.operator import OperatorTask
from evenflow.storage.bundle import PartRef
from evenflow.storage.stored_parts import read_table

HARD_LIMIT_SECONDS = 60.0  # after the limit: if not even the note can be written
WATCHDOG_RENEW_SECONDS = 10.0


class SqlRuntime:
    """Opens tasks on one DuckDB engine; lives as long as its worker process.

    Compiled queries and the catalog are cached for the registry that was used last.
    """

    def __init__(self, limits: MemoryLimits = MemoryLimits(), processes: int = 0) -> None:  # noqa: B008 - frozen
        """Share the memory of the machine with `processes` processes; 0: one for each core."""
        processes = processes or os.cpu_count() or 1
        memory = EngineMemory.by_limits(limits, processes)
        self._engine = Engine(memory=memory)
        grace = _CompileGrace(self._engine.watch)
        event.register("numba:compile", grace)  # type: ignore[no-untyped-call]
        self.outdated_state_bytes = memory.memory_bytes // 4
        self._registry = Registry()
        self._catalog = Catalog()
        self._programs: dict[str, CompiledQuery] = {}
        self._isolated: dict[str, IsolatedOperator] = {}
        self._tables: dict[PartRef, pa.Table] = {}
        self._watchdog_seconds = 0.0
        self._watchdog_renew_at = 0.0  # from then on the watchdog is started again
        self._engine.watch.on_tick = self._renew_watchdog

    def open_task(self, query: Hosted, registry: Registry, ledger: Ledger) -> Task:
        """Return an empty task of a query."""
        if registry is not self._registry:
            hosted = {query.uid for query in registry.queries.values()}
            self._programs = {uid: p for uid, p in self._programs.items() if uid in hosted}
            self._registry, self._catalog = registry, sql_catalog(registry)
            for uid in [uid for uid in self._isolated if uid not in hosted]:
                self._isolated.pop(uid).close()
        if query.isolate:
            return self._open_isolated(query)
        program = self._programs.get(query.uid)
        if program is None:
            with self._engine.watch.grace(MAX_SECONDS):  # it may import a module
                program = compile_definition(
                    query.form,
                    query.name,
                    query.text,
                    self._catalog,
                    key=query.key,
                    over=query.streams,
                )
            self._programs[query.uid] = program
        tables = {name: self._table(registry.tables[name].rows, ledger) for name in program.tables}
        return program.open(self._engine, tables)

    def _open_isolated(self, query: Hosted) -> Task:
        """Return a task of an isolated operator; its class is imported in its process only."""
        if query.uid not in self._isolated:
            self._isolated[query.uid] = IsolatedOperator(query.text, self._engine.watch)
        streams = self._registry.streams
        times = {stream: streams[stream].time for stream in query.streams}
        key = None if query.key_columns is None else query.key_columns[query.streams[0]]
        return OperatorTask(self._isolated[query.uid], times, key)

    @contextmanager
    def time_limit(
        self, on_overrun: Callable[[], None], seconds: float = MAX_SECONDS
    ) -> Iterator[None]:
        """Interrupt a step at the limit; if that does not end it, note it and end the process.

        Should even that fail, a watchdog ends the process: a C thread of the interpreter, so no
        lock can delay it. It knows the clock only, so it is restarted while the time of a step is
        not over: every few seconds, not for each step. `stop_watchdog` stops it.
        """
        last = seconds + overrun_seconds(seconds)
        self._watchdog_seconds = last + HARD_LIMIT_SECONDS
        self._renew_watchdog()

        def end_process() -> None:
            on_overrun()
            faulthandler.dump_traceback(file=2)
            self.exit_process()

        with self._engine.time_limit(seconds, last, end_process):
            yield

    def _renew_watchdog(self) -> None:
        """Start the watchdog again if its time has come; called in a step."""
        now = time.monotonic()
        if now >= self._watchdog_renew_at:
            faulthandler.dump_traceback_later(self._watchdog_seconds, exit=True, file=2)
            self._watchdog_renew_at = now + WATCHDOG_RENEW_SECONDS

    def exit_process(self) -> None:
        """End this Python process; Spark starts another and repeats the task."""
        os._exit(1)

    def stop_watchdog(self) -> None:
        """Stop the watchdog, before code that is not a query's."""
        faulthandler.cancel_dump_traceback_later()
        self._watchdog_renew_at = 0.0

    def _table(self, ref: PartRef, ledger: Ledger) -> pa.Table:
        if ref not in self._tables:
            self._tables[ref] = read_table(ledger.store, ref)
        return self._tables[ref]


class _CompileGrace(event.Listener):
    """Does not count the time in which a kernel is compiled, which happens once on a machine."""

    def __init__(self, watch: DeadlineWatch) -> None:
        self._watch, self._depth, self._began = watch, 0, 0.0

    def on_start(self, _: event.Event) -> None:
        """Give time; a kernel that calls another one compiles it meanwhile."""
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            self._watch.extend(MAX_SECONDS)

    def on_end(self, _: event.Event) -> None:
        """Take back what was not needed."""
        self._depth -= 1
        if self._depth == 0:
            self._watch.extend(min(0.0, time.monotonic() - self._began - MAX_SECONDS))
