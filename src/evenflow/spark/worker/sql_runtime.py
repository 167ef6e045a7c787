"""Runs compiled queries in a worker process, with a limit on the time of each step."""

import faulthandler
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from evenflow.model.limits import MemoryLimits
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.query_compiler import CompiledQuery, compile_definition, sql_catalog
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.step_limits import MAX_SECONDS
from evenflow.sql import Catalog, Engine, Task
from evenflow.sql.spill import EngineMemory
from evenflow.storage.bundle import PartRef
from evenflow.storage.stored_parts import read_table

OVERRUN_SECONDS = 2.0  # what a step may take after its limit, before the process ends
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
        self.outdated_state_bytes = memory.memory_bytes // 4
        self._registry = Registry()
        self._catalog = Catalog()
        self._programs: dict[str, CompiledQuery] = {}
        self._tables: dict[PartRef, pa.Table] = {}
        self._watchdog_renew_at = 0.0  # a step that begins later starts the watchdog again

    def open_task(self, query: Hosted, registry: Registry, ledger: Ledger) -> Task:
        """Return an empty task of a query."""
        if registry is not self._registry:
            hosted = {query.uid for query in registry.queries.values()}
            self._programs = {uid: p for uid, p in self._programs.items() if uid in hosted}
            self._registry, self._catalog = registry, sql_catalog(registry)
        program = self._programs.get(query.uid)
        if program is None:
            program = self._programs[query.uid] = compile_definition(
                query.form, query.name, query.text, self._catalog, key=query.key, over=query.streams
            )
        tables = {name: self._table(registry.tables[name].rows, ledger) for name in program.tables}
        return program.open(self._engine, tables)

    @contextmanager
    def time_limit(
        self, on_overrun: Callable[[], None], seconds: float = MAX_SECONDS
    ) -> Iterator[None]:
        """Interrupt a step at the limit; if that does not end it, note it and end the process.

        Should even that fail, a watchdog ends the process: a C thread of the interpreter, so no
        lock can delay it. It is restarted every few seconds, not for each step, and stopped by
        `stop_watchdog`.
        """
        now = time.monotonic()
        if now >= self._watchdog_renew_at:
            faulthandler.dump_traceback_later(
                seconds + OVERRUN_SECONDS + HARD_LIMIT_SECONDS, exit=True, file=2
            )
            self._watchdog_renew_at = now + WATCHDOG_RENEW_SECONDS

        def end_process() -> None:
            on_overrun()
            faulthandler.dump_traceback(file=2)
            self.exit_process()

        with self._engine.time_limit(seconds, seconds + OVERRUN_SECONDS, end_process):
            yield

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
