"""The one door to DuckDB: locked down, limited in memory and time, the same for every query.

A query is untrusted. What it may say is decided before (`expressions`, `functions`: an allow-list);
this module sees to it that even a statement which slipped through reaches no file, network,
extension, setting or Python variable, and is stopped when it runs too long.
"""

import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

import duckdb
import pyarrow as pa

from evenflow.sql.failure import QueryFailed
from evenflow.sql.rows import to_physical_types

_CONNECT_OPTIONS: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "max_temp_directory_size": "0KB",
    "threads": 1,
    "async_threads": 1,
    "max_expression_depth": 250,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "allow_extensions_metadata_mismatch": False,
    "allow_extension_repositories": "forbidden",
    "allow_persistent_secrets": False,
    "allow_unredacted_secrets": False,
    "enable_external_file_cache": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
}
_LOCKDOWN_STATEMENTS = (
    "SET TimeZone = 'UTC'",
    "SET disabled_filesystems = 'LocalFileSystem'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)

ROWS_TABLE = "\x01rows"  # no query can contain a control character, so this is never a user's name
MAX_STATEMENTS = 2_000
SMALL_BATCH_ROWS = 20_000
TICK_SECONDS = 0.05  # seconds between looks at the deadline of what runs
# `execute` takes half the time of `sql` but copies the result once, which is why DuckDB warns: we
# choose it for small batches only, where the copy is nothing.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")


class Engine:
    """A DuckDB of one worker process; not for use by two threads at once.

    `statement_seconds` limits one statement. `time_limit` limits all statements of a query's batch.
    """

    def __init__(self, *, memory_limit: str = "256MB", statement_seconds: float = 30.0) -> None:
        config = {**_CONNECT_OPTIONS, "memory_limit": memory_limit}
        config["max_execution_time"] = max(1, round(statement_seconds * 1000))
        self._connection = duckdb.connect(":memory:", config=config)
        for statement in _LOCKDOWN_STATEMENTS:
            self._connection.execute(statement)
        self._watch = _DeadlineWatch(self._connection)
        self._name_counter = count()
        self._statements: dict[tuple[str, pa.Schema], _PreparedStatement] = {}
        self._shared_tables: dict[int, _SharedTable] = {}
        self._finalizer = weakref.finalize(self, _shut_down, self._watch, self._connection)

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Run one SELECT over the given tables."""
        registered: list[str] = []
        try:
            self._watch.raise_if_expired()
            for name, table in tables.items():
                self._connection.register(name, table)
                registered.append(name)
            return self._connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise self._to_query_failed(error) from None
        finally:
            for name in registered:
                with suppress(duckdb.Error):
                    self._connection.unregister(name)

    def run_prepared(self, sql: str, rows: pa.Table) -> pa.Table:
        """Run a SELECT over one table, named `ROWS_TABLE` in it, that is run batch after batch.

        Planned once, which small batches feel. Not for joins, whose plan should follow the
        sizes of the tables.
        """
        try:
            self._watch.raise_if_expired()
            prepared = self._prepare(sql, rows.schema)
            prepared.input.table = rows
            try:
                text = f"EXECUTE {prepared.name}"
                if len(rows) <= SMALL_BATCH_ROWS:
                    return self._connection.execute(text).to_arrow_table()
                return self._connection.sql(text).to_arrow_table()
            finally:
                prepared.input.table = prepared.input.empty
        except duckdb.Error as error:
            raise self._to_query_failed(error) from None

    def _prepare(self, sql: str, schema: pa.Schema) -> "_PreparedStatement":
        found = self._statements.pop((sql, schema), None)
        if found is None:
            name = f"statement_{next(self._name_counter)}"
            found = _PreparedStatement(name, _BatchInput(schema))
            self._connection.register(f"rows_{name}", found.input)
            text = sql.replace(ROWS_TABLE, f"rows_{name}")
            self._connection.execute(f"PREPARE {name} AS {text}")
        self._statements[sql, schema] = found  # as the newest
        if len(self._statements) > MAX_STATEMENTS:
            self._deallocate(self._statements.pop(next(iter(self._statements))))
        return found

    def _deallocate(self, prepared: "_PreparedStatement") -> None:
        self._connection.execute(f"DEALLOCATE {prepared.name}")
        self._connection.unregister(f"rows_{prepared.name}")

    def create_table(self, table: pa.Table) -> str:
        """Copy a reference table into the engine and return its name there."""
        name = f"kept_{next(self._name_counter)}"
        try:
            self._connection.register("_incoming", table)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM _incoming")  # noqa: S608
        except duckdb.Error as error:
            raise self._to_query_failed(error) from None
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister("_incoming")
        return name

    def share_table(self, table: pa.Table) -> str:
        """Keep a reference table once, however many tasks read it; each gives it back by `drop_table`."""
        found = self._shared_tables.get(id(table))
        if found is None:
            found = _SharedTable(table, self.create_table(to_physical_types(table)))
            self._shared_tables[id(table)] = found  # it is held, so its id stays its own
        found.readers += 1
        return found.name

    def drop_table(self, name: str) -> None:
        """Forget a kept table; a shared one when its last reader is gone."""
        for at, found in list(self._shared_tables.items()):
            if found.name == name:
                found.readers -= 1
                if found.readers:
                    return
                del self._shared_tables[at]
        self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Interrupt whatever runs inside when the time is over."""
        self._watch.start(seconds)
        try:
            yield
        finally:
            self._watch.stop()

    def close(self) -> None:
        """Release the memory."""
        self._finalizer()

    def _to_query_failed(self, error: duckdb.Error) -> QueryFailed:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, duckdb.InterruptException) or self._watch.is_expired:
            return QueryFailed("time", "it ran longer than its time limit")
        if isinstance(error, duckdb.OutOfMemoryException):
            return QueryFailed("memory", f"it needs more memory than it may have: {said}")
        return QueryFailed("error", said)


class _BatchInput:
    """A place for one table after another, which DuckDB reads under one name."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.empty = schema.empty_table()
        self.table = self.empty

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class _PreparedStatement:
    name: str
    input: _BatchInput


@dataclass
class _SharedTable:
    table: pa.Table
    name: str
    readers: int = 0


def _shut_down(watch: "_DeadlineWatch", connection: duckdb.DuckDBPyConnection) -> None:
    watch.shut_down()
    connection.close()


class _DeadlineWatch:
    """One thread that interrupts a connection at a deadline.

    It looks at the time now and then, and sleeps when nothing has run for a while: to wake it for
    every step of every query would take longer than small steps do.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._condition = threading.Condition()
        self._deadline: float | None = None
        self._is_sleeping = False
        self._is_shut_down = False
        self._thread: threading.Thread | None = None

    def start(self, seconds: float) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="evenflow-watch", daemon=True)
            self._thread.start()
        self._deadline = time.monotonic() + seconds
        if self._is_sleeping:  # set by the thread before it looks at the deadline a last time
            with self._condition:
                self._condition.notify()

    def stop(self) -> None:
        with self._condition:  # so that no interrupt is under way, which would meet the next query
            self._deadline = None

    def shut_down(self) -> None:
        with self._condition:
            self._is_shut_down = True
            self._condition.notify()

    @property
    def is_expired(self) -> bool:
        deadline = self._deadline
        return deadline is not None and time.monotonic() >= deadline

    def raise_if_expired(self) -> None:
        if self.is_expired:
            raise QueryFailed("time", "it ran longer than its time limit")

    def _run(self) -> None:
        idle = False
        while True:
            with self._condition:
                if self._is_shut_down:
                    return
                if not self.is_expired:
                    self._is_sleeping = idle
                    idle = self._deadline is None
                    if self._is_sleeping and idle:
                        self._condition.wait()
                        idle = False
                    else:
                        self._condition.wait(TICK_SECONDS)
                    self._is_sleeping = False
                    continue
                # The deadline has passed: repeat, an interrupt between two statements is lost.
                self._connection.interrupt()
            time.sleep(0.02)
