"""Continuous SQL without Spark: compile a query, run it batch by batch, move its state.

```python
catalog = Catalog(streams={"trades": Stream(schema, time="ts", delay_us=10_000_000)},
                  tables={"sectors": sector_schema})
program = compile_query("dear", "SELECT ...", catalog, key=None)   # InputError says what to write
program.kind      # stateless, aggregate, join, join_aggregate, template or python
program.streams, program.tables, program.schema, program.time, program.lag_us, program.key

engine = Engine(memory_limit="256MB")                # one per worker process
task = program.open(engine, tables={"sectors": t})   # this query's state on this worker
out = task.step({"trades": new_rows}, watermark_us)  # out.rows, out.late, out.poison
saved = task.save()                                  # saved.manifest, saved.segments (new ones)
task.load(saved.manifest, read)                      # into a fresh task
blob = task.release(select); other.accept(blob)      # the state of some keys, by their hash
task.state_bytes, task.next_due_us

template = compile_template("limit", "SELECT ts FROM trades WHERE symbol = :symbol", catalog)
template.parameters                                  # schema: subscription, symbol
task.subscribe(rows); task.unsubscribe(names)        # Arrow table of that schema; Arrow strings
operator = compile_operator("mine", MyOperator, ["trades"], catalog, key="symbol")
```
A task that raised `QueryFailed` is to be dropped and its query quarantined.
`engine.time_limit(seconds)` limits the time of what runs inside. The watermark given to `step` must not
depend on the rows of that batch: rows for windows it completes are late.
"""

from evenflow.sql.catalog import Catalog, Stream
from evenflow.sql.ddl import read_schema
from evenflow.sql.engine import Engine
from evenflow.sql.failure import QueryFailed
from evenflow.sql.finding import import_operator, operator_path
from evenflow.sql.program import Program, compile_query, compile_template
from evenflow.sql.rows import valid_time_mask
from evenflow.sql.tasks.operator import Operator, OperatorProgram, compile_operator
from evenflow.sql.tasks.query_task import QueryTask
from evenflow.sql.tasks.task import SavedState, StepOutput, Task

__all__ = [
    "Catalog",
    "Engine",
    "Operator",
    "OperatorProgram",
    "Program",
    "QueryFailed",
    "QueryTask",
    "SavedState",
    "StepOutput",
    "Stream",
    "Task",
    "compile_operator",
    "compile_query",
    "compile_template",
    "import_operator",
    "operator_path",
    "read_schema",
    "valid_time_mask",
]
