"""Continuous SQL without Spark: compile a query, run it batch by batch, move its state.

```python
catalog = Catalog(streams={"trades": Stream(schema, time="ts", delay_us=10_000_000)},
                  tables={"sectors": sector_schema})
program = compile_query("expensive", "SELECT ...", catalog, key=None)   # InputError: what to change
program.kind      # stateless, aggregate, join, join_aggregate, template or python
program.streams, program.tables, program.schema, program.time, program.lag_us, program.key

engine = Engine()                                    # one per worker process
task = program.open(engine, tables={"sectors": t})   # the query's state on one worker
out = task.step({"trades": new_rows}, watermark_us)  # out.rows, out.late, out.poison
saved = task.save()                                  # saved.manifest, saved.segments (new ones)
task.load(saved.manifest, read)                      # into a new task
blob = task.release(select); other.accept(blob)      # the state of selected keys
task.state_bytes, task.next_due_us

template = compile_template("limit", "SELECT ts FROM trades WHERE symbol = :symbol", catalog)
template.parameters                                  # schema: subscription, symbol
task.subscribe(rows); task.unsubscribe(names)        # Arrow table of that schema; Arrow strings
operator = compile_operator("mine", MyOperator, ["trades"], catalog, key="symbol")
```
Drop a task that raised `QueryFailed`, and quarantine its query. `engine.time_limit(seconds)` limits
the time of the statements inside it. The watermark given to `step` must not depend on the rows of
that batch: rows for windows that it completes are late.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.sql.catalog import Catalog, Stream, read_schema
    from evenflow.sql.definition import CompiledQuery, compile_definition
    from evenflow.sql.engine import Engine
    from evenflow.sql.failures import QueryFailed
    from evenflow.sql.function_declaration import declare_function
    from evenflow.sql.operator_program import OperatorProgram, compile_operator
    from evenflow.sql.program import Program, compile_query, compile_template
    from evenflow.sql.python_operator import Operator, import_operator, operator_path
    from evenflow.sql.split_plan import SplitPolicy
    from evenflow.sql.tasks.query_task import QueryTask
    from evenflow.sql.tasks.split_keys import TaskSplits
    from evenflow.sql.tasks.task import STATE_VERSION, SavedState, StepOutput, Task
    from evenflow.sql.tasks.waiting_rows import SLICES, WaitingRows

__all__ = [
    "SLICES",
    "STATE_VERSION",
    "Catalog",
    "CompiledQuery",
    "Engine",
    "Operator",
    "OperatorProgram",
    "Program",
    "QueryFailed",
    "QueryTask",
    "SavedState",
    "SplitPolicy",
    "StepOutput",
    "Stream",
    "Task",
    "TaskSplits",
    "WaitingRows",
    "compile_definition",
    "compile_operator",
    "compile_query",
    "compile_template",
    "declare_function",
    "import_operator",
    "operator_path",
    "read_schema",
]

_MODULES = {
    "Catalog": "evenflow.sql.catalog",
    "CompiledQuery": "evenflow.sql.definition",
    "Engine": "evenflow.sql.engine",
    "Operator": "evenflow.sql.python_operator",
    "OperatorProgram": "evenflow.sql.operator_program",
    "Program": "evenflow.sql.program",
    "QueryFailed": "evenflow.sql.failures",
    "QueryTask": "evenflow.sql.tasks.query_task",
    "SLICES": "evenflow.sql.tasks.waiting_rows",
    "STATE_VERSION": "evenflow.sql.tasks.task",
    "SavedState": "evenflow.sql.tasks.task",
    "SplitPolicy": "evenflow.sql.split_plan",
    "StepOutput": "evenflow.sql.tasks.task",
    "Stream": "evenflow.sql.catalog",
    "Task": "evenflow.sql.tasks.task",
    "TaskSplits": "evenflow.sql.tasks.split_keys",
    "WaitingRows": "evenflow.sql.tasks.waiting_rows",
    "compile_definition": "evenflow.sql.definition",
    "compile_operator": "evenflow.sql.operator_program",
    "compile_query": "evenflow.sql.program",
    "compile_template": "evenflow.sql.program",
    "declare_function": "evenflow.sql.function_declaration",
    "import_operator": "evenflow.sql.python_operator",
    "operator_path": "evenflow.sql.python_operator",
    "read_schema": "evenflow.sql.catalog",
}


def __getattr__(name: str) -> Any:
    """Import on first use only: the process of an isolated operator needs no SQL."""
    if name not in _MODULES:
        raise AttributeError(f"module 'evenflow.sql' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
