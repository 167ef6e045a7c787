"""The only access to DuckDB: locked down, and limited in memory, disk and time.

Queries are untrusted. `translate` passes on only what is on its allow-list; should a statement slip
through, it still reaches no file, network, extension, setting or Python variable here, and it is
stopped when it runs too long. An engine that may spill to the disk can open the files of its own
spill folder; so its statements are checked once more (`statement_check`).
"""

import math
import shutil
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature
from itertools import count
from typing import Any, Literal

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from evenflow.sql.deadline_watch import DeadlineWatch
from evenflow.sql.failures import QueryFailed, describe_engine_error, is_plan_error
from evenflow.sql.kernels import KERNELS
from evenflow.sql.result_bound import RESULT_CHUNK_ROWS, read_bounded
from evenflow.sql.spill import EngineMemory, make_spill_folder
from evenflow.sql.statement_check import find_file_access, may_open_files
from evenflow.sql.types import duckdb_name, to_physical_types
from evenflow.sql.user_functions import UserCall

_CONNECT_OPTIONS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "async_threads": 1,
    "max_expression_depth": 1000,
    # It evaluates constant conditions while it plans: `CASE WHEN 1 / 0 > 1` fails without a row.
    "disabled_optimizers": "expression_rewriter",
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
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_NO_FILES_STATEMENT = "SET disabled_filesystems = 'LocalFileSystem'"
_NO_SPILL = {"temp_directory": "", "max_temp_directory_size": "0KB"}

ROWS_TABLE = "\x01rows"  # no query can contain a control character, so this is never a user's name
MAX_STATEMENTS, MAX_STATEMENT_CHARACTERS = 2_000, 10_000_000  # about 40 bytes a character
SMALL_BATCH_ROWS = 20_000
# `execute` takes half the time of `sql` but copies the result, which is why DuckDB warns. We use it
# for small batches only, where the copy is cheap.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")


class Engine:
    """An in-memory DuckDB; each worker process has one, used by one thread at a time.

    `statement_seconds` limits one statement, `time_limit` all statements of a query's batch;
    `watch` knows its deadline.
    """

    def __init__(
        self,
        *,
        memory: EngineMemory = EngineMemory(),  # noqa: B008 - frozen
        statement_seconds: float = 30.0,
    ) -> None:
        config = {**_CONNECT_OPTIONS, **_NO_SPILL}
        config["memory_limit"] = f"{memory.memory_bytes // 1024}KiB"
        folder = make_spill_folder() if memory.spill_bytes else None
        if folder is not None:
            config["temp_directory"] = folder
            config["max_temp_directory_size"] = f"{memory.spill_bytes // 1024}KiB"
        self._checked: dict[str, None] | None = None if folder is None else {}
        config["max_execution_time"] = max(1, round(statement_seconds * 1000))
        self._connection = duckdb.connect(":memory:", config=config)
        _add_kernels(self._connection)
        lockdown = (_NO_FILES_STATEMENT, *_LOCKDOWN_STATEMENTS)
        for statement in lockdown if folder is None else _LOCKDOWN_STATEMENTS:
            self._connection.execute(statement)
        self.watch = DeadlineWatch(self._connection.interrupt)
        self._name_counter = count()
        self._statements: dict[tuple[str, pa.Schema], _PreparedStatement] = {}
        self._statement_characters = 0
        self._shared_tables: dict[int, _SharedTable] = {}
        self._functions: set[str] = set()
        self._function_error = ""
        self._finalizer = weakref.finalize(self, _shut_down, self.watch, self._connection, folder)

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Run one SELECT over the given tables."""
        registered: list[str] = []
        try:
            self.watch.raise_if_expired()
            self._check_statement(sql)
            for name, table in tables.items():
                self._connection.register(name, _without_offsets(table))
                registered.append(name)
            relation = self._connection.sql(sql)
            return read_bounded(relation.to_arrow_reader(RESULT_CHUNK_ROWS))
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # the last two: while reading
            raise self._to_query_failed(error) from None
        finally:
            for name in registered:
                with suppress(duckdb.Error):
                    self._connection.unregister(name)

    def run_prepared(self, sql: str, rows: pa.Table) -> pa.Table:
        """Run a SELECT over `ROWS_TABLE`; it is planned once and reused for every batch.

        Do not use it for joins: their plan should depend on the sizes of the tables.
        """
        try:
            self.watch.raise_if_expired()
            prepared = self._prepare(sql, rows.schema)
            prepared.rows = _without_offsets(rows)
            try:
                run = f"EXECUTE {prepared.name}"
                if len(rows) <= SMALL_BATCH_ROWS:
                    return self._connection.execute(run).to_arrow_table()
                reader = self._connection.sql(run).to_arrow_reader(RESULT_CHUNK_ROWS)
                return read_bounded(reader)
            finally:
                prepared.rows = prepared.empty
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._to_query_failed(error) from None

    def _prepare(self, sql: str, schema: pa.Schema) -> "_PreparedStatement":
        prepared = self._statements.pop((sql, schema), None)
        if prepared is None:
            prepared = _PreparedStatement(f"statement_{next(self._name_counter)}", schema)
            self._connection.register(prepared.input_name, prepared)
            text = sql.replace(ROWS_TABLE, prepared.input_name)
            self._check_statement(text)
            self._connection.execute(f"PREPARE {prepared.name} AS {text}")
            self._statement_characters += len(sql)
        self._statements[sql, schema] = prepared  # the most recently used is last
        while len(self._statements) > MAX_STATEMENTS or (
            self._statement_characters > MAX_STATEMENT_CHARACTERS and len(self._statements) > 1
        ):
            self._forget_oldest_statement()
        return prepared

    def _forget_oldest_statement(self) -> None:
        sql, schema = next(iter(self._statements))
        oldest = self._statements.pop((sql, schema))
        self._statement_characters -= len(sql)
        self._connection.execute(f"DEALLOCATE {oldest.name}")
        self._connection.unregister(oldest.input_name)

    def _check_statement(self, sql: str) -> None:
        """Refuse a statement that could open a file, if this engine can open any."""
        if self._checked is None or sql in self._checked:
            return
        if not may_open_files(sql, _table_functions()):
            return
        query = "SELECT json_serialize_sql($1::VARCHAR)"
        tree = self._connection.execute(query, [sql]).fetchall()[0][0]
        if (problem := find_file_access(tree)) is not None:
            raise QueryFailed("error", problem)
        self._checked[sql] = None
        if len(self._checked) > MAX_STATEMENTS:
            del self._checked[next(iter(self._checked))]

    def create_table(self, table: pa.Table) -> str:
        """Copy a table into the engine and return its name there."""
        name = f"kept_{next(self._name_counter)}"
        try:
            self._connection.register("_incoming", _without_offsets(table))
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM _incoming")  # noqa: S608
        except duckdb.Error as error:
            raise self._to_query_failed(error) from None
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister("_incoming")
        return name

    def share_table(self, table: pa.Table) -> str:
        """Return the engine's one copy of a reference table; each caller must `drop_table` it."""
        shared = self._shared_tables.get(id(table))
        if shared is None:
            shared = _SharedTable(table, self.create_table(to_physical_types(table)))
            self._shared_tables[id(table)] = shared  # it holds the table, so the id stays valid
        shared.readers += 1
        return shared.name

    def add_function(self, call: UserCall) -> None:
        """Let statements call a function of the user."""
        if call.engine_name in self._functions:
            return

        def evaluate(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                return call.evaluate(*columns)
            except Exception as error:
                self._function_error = f"the function {call.path} failed: {type(error).__name__}"
                raise

        # DuckDB counts the parameters of the function.
        names = [f"a{at}" for at in range(len(call.parameters))]
        signature = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])
        evaluate.__signature__ = signature  # type: ignore[attr-defined]
        parameters: Any = [duckdb.sqltype(duckdb_name(kind)) for kind in call.parameters]
        self._connection.create_function(
            call.engine_name,
            evaluate,
            parameters,
            duckdb.sqltype(duckdb_name(call.returns)),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        self._functions.add(call.engine_name)

    def drop_table(self, name: str) -> None:
        """Drop a table; a shared one once its last reader drops it."""
        for table_id, shared in list(self._shared_tables.items()):
            if shared.name == name:
                shared.readers -= 1
                if shared.readers:
                    return
                del self._shared_tables[table_id]
        self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    @contextmanager
    def time_limit(
        self,
        seconds: float,
        overrun_seconds: float = math.inf,
        on_overrun: Callable[[], None] | None = None,
    ) -> Iterator[None]:
        """Interrupt the statements inside the block once the time is over.

        If that does not end the block, another thread calls `on_overrun` once, later.
        """
        self.watch.start(seconds, overrun_seconds, on_overrun)
        try:
            yield
        finally:
            self.watch.stop()

    def close(self) -> None:
        """Release the memory."""
        self._finalizer()

    def _to_query_failed(self, error: Exception) -> QueryFailed:
        message = str(error).strip() or type(error).__name__
        is_interrupt = isinstance(error, duckdb.InterruptException) or "INTERRUPT" in message
        if is_interrupt or self.watch.is_expired:
            return QueryFailed("time", "it ran longer than its time limit")
        texts = ("Out of Memory", "MemoryError", "bad_alloc")
        if isinstance(error, duckdb.OutOfMemoryException) or any(t in message for t in texts):
            return QueryFailed("memory", f"it exceeded its memory limit: {message.splitlines()[0]}")
        if self._function_error:
            told, self._function_error = self._function_error, ""
            return QueryFailed("error", told)
        reason: Literal["plan", "error"] = "plan" if is_plan_error(message) else "error"
        return QueryFailed(reason, describe_engine_error(message))


def _add_kernels(connection: duckdb.DuckDBPyConnection) -> None:
    for name, kernel in KERNELS.items():
        parameters: Any = [duckdb.sqltype(kind) for kind in kernel.parameters]
        connection.create_function(
            name,
            kernel.function,
            parameters,
            duckdb.sqltype(kernel.result),
            null_handling=FunctionNullHandling.SPECIAL,
        )


def _without_offsets(table: pa.Table) -> pa.Table:
    """Copy a table with structs in structs: DuckDB cannot read those of a slice."""
    structs = [column.type for column in table.schema if pa.types.is_struct(column.type)]
    if any(pa.types.is_nested(field.type) for kind in structs for field in kind):
        return table.take(pa.array(range(len(table)), pa.int64()))
    return table


class _PreparedStatement:
    """A prepared statement and its input, which DuckDB reads as an Arrow stream in every batch."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name, self.input_name = name, f"rows_{name}"
        self.schema = schema
        self.rows = self.empty = schema.empty_table()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


@dataclass
class _SharedTable:
    table: pa.Table
    name: str
    readers: int = 0


@cache
def _table_functions() -> frozenset[str]:
    """Return the names of all functions that can stand in place of a table."""
    with duckdb.connect(":memory:") as connection:
        query = "SELECT function_name FROM duckdb_functions() WHERE function_type LIKE '%table%'"
        return frozenset(str(name).lower() for (name,) in connection.execute(query).fetchall())


def _shut_down(
    watch: DeadlineWatch, connection: duckdb.DuckDBPyConnection, folder: str | None
) -> None:
    watch.shut_down()
    connection.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
