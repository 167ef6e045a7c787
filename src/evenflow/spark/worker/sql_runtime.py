"""Compiled queries: on the driver to check what is submitted, in a worker process to run it."""

import faulthandler
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.registry import Hosted, KeySpec, Registry
from evenflow.sql import (
    Catalog,
    Engine,
    OperatorProgram,
    Program,
    Stream,
    Task,
    compile_operator,
    compile_query,
    compile_template,
    import_operator,
)
from evenflow.storage.bundle import read_part, unpack

SOFT_LIMIT_SECONDS = 30.0
HARD_LIMIT_SECONDS = 60.0
WATCHDOG_RENEW_SECONDS = 10.0

CompiledQuery = Program | OperatorProgram


def engine_version() -> str:
    """Return what must stay the same for a state to be read and results to stay exact."""
    return f"duckdb {version('duckdb')}"


def sql_catalog(registry: Registry) -> Catalog:
    """Return what queries may name."""
    streams = {n: Stream(s.schema, s.time, max(0, s.delay_us)) for n, s in registry.streams.items()}
    return Catalog(streams, {name: spec.schema for name, spec in registry.tables.items()})


def compile_definition(
    form: str,
    name: str,
    text: str,
    catalog: Catalog,
    *,
    key: KeySpec | None,
    over: tuple[str, ...],
) -> CompiledQuery:
    """Compile a query, a template or an operator, or refuse it."""
    if form == "query":
        return compile_query(name, text, catalog, key=key)
    if form == "template":
        return compile_template(name, text, catalog, key=key)
    return compile_operator(name, import_operator(text), over, catalog, key=key)


class SqlRuntime:
    """Opens tasks in a worker process: one DuckDB for all of them."""

    def __init__(self) -> None:
        self._engine = Engine()
        self._registry = Registry()  # what the programs and the catalog are of
        self._catalog = Catalog()
        self._programs: dict[str, CompiledQuery] = {}
        self._tables: dict[Any, Any] = {}
        self._watchdog_renew_at = 0.0  # until when a step may begin under the present watch

    def open_task(self, query: Hosted, registry: Registry, ledger: Ledger) -> Task:
        """Return an empty task."""
        if registry is not self._registry:
            hosted = {query.uid for query in registry.queries.values()}
            self._programs = {uid: p for uid, p in self._programs.items() if uid in hosted}
            self._registry, self._catalog = registry, sql_catalog(registry)
        program = self._programs.get(query.uid)
        if program is None:
            program = self._programs[query.uid] = compile_definition(
                query.form, query.name, query.text, self._catalog, key=query.key, over=query.streams
            )
        tables = {name: self._table(name, registry, ledger) for name in program.tables}
        return program.open(self._engine, tables)

    @contextmanager
    def time_limit(self) -> Iterator[None]:
        """Bound the time of a query's step: interrupt it, and if it hears nothing end the process.

        The second is done by a thread of the interpreter's own, which no lock can hold up. It is
        started anew every few seconds rather than for each step, and ended by `stop_watchdog`.
        """
        now = time.monotonic()
        if now >= self._watchdog_renew_at:
            faulthandler.dump_traceback_later(HARD_LIMIT_SECONDS, exit=True, file=2)
            self._watchdog_renew_at = now + WATCHDOG_RENEW_SECONDS
        with self._engine.time_limit(SOFT_LIMIT_SECONDS):
            yield

    def stop_watchdog(self) -> None:
        """End the watch over the process: nothing of a query runs for now."""
        faulthandler.cancel_dump_traceback_later()
        self._watchdog_renew_at = 0.0

    def _table(self, name: str, registry: Registry, ledger: Ledger) -> Any:
        ref = registry.tables[name].rows
        if ref not in self._tables:
            self._tables[ref] = unpack(read_part(ledger.store, ref))
        return self._tables[ref]
