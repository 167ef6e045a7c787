"""SQL is compiled in a process with limits: a text that exceeds them ends only that process."""

import os
import signal
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.support.dear_sql import DEAR
from tests.support.hostile_sql import CASES, CATALOG, HostileSql, column, levels, nest

from evenflow.errors import InputError
from evenflow.model.user_function import UserFunction
from evenflow.sql import Catalog, Engine, compile_process, compile_query, compile_server
from evenflow.sql.compile_process import CompileProcess
from evenflow.sql.compile_server import CompileRequest
from evenflow.sql.translate import typed_expr


@pytest.fixture(scope="module")
def process() -> Iterator[CompileProcess]:
    process = CompileProcess()
    yield process
    process.close()


def request(sql: str, form: str = "query") -> CompileRequest:
    return CompileRequest(form, "q", sql, CATALOG)


def test_the_program_is_that_of_this_process(process: CompileProcess) -> None:
    sql = "SELECT window, symbol, avg(price) AS p FROM trades GROUP BY window(ts, '1 day'), symbol"
    assert process.compile(request(sql)) == compile_query("q", sql, CATALOG)


def test_a_refusal_is_an_input_error(process: CompileProcess) -> None:
    with pytest.raises(InputError, match="there is no column 'nothing'"):
        process.compile(request("SELECT nothing FROM trades"))


def test_a_template_is_compiled(process: CompileProcess) -> None:
    program = process.compile(request(column("symbol", "WHERE price > :low"), "template"))
    assert program.parameters is not None and program.parameters.names == ["subscription", "low"]


def test_memory_ends_the_process_and_the_next_request_gets_another_one(
    process: CompileProcess,
) -> None:
    sql = levels("SELECT ts, note || note AS note FROM {}", 28)  # 2**28 characters for one row
    with pytest.raises(InputError, match=r"on one row, it exceeded its memory limit|too much mem"):
        process.compile(request(sql))
    assert process.compile(request(column("price"))).kind == "stateless"


def test_cpu_time_ends_the_process(process: CompileProcess) -> None:
    """The made-up row goes through 40,000 calls of a kernel, each over thousands of characters."""
    costly = "exists(sequence(1, 10000), x -> mask(repeat(CAST(x AS STRING), 1000)) = '')"
    sql = column(", ".join(f"{costly} AS c{at}" for at in range(4)) + ", price")
    with pytest.raises(InputError, match="more than 3 seconds of CPU time"):
        process.compile(request(sql))
    assert process.compile(request(column("price"))).kind == "stateless"


def test_a_killed_process_is_replaced(process: CompileProcess) -> None:
    process.start()
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert process.compile(request(column("price"))).kind == "stateless"


def test_a_statement_that_the_engine_cannot_plan_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typed_expr, "_parameter_name", lambda bound: "not a name")
    sql = column(nest("round({}, 2)", 5))
    with pytest.raises(InputError, match="the engine cannot run it: Parser Error"):
        compile_server.compile_and_try(request(sql), Engine())


QUICK = ("dear-repeated-text", "dear-nested-loops", "dear-exploded-twice")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[] if case.name in QUICK else pytest.mark.slow)
     for case in DEAR],
)  # fmt: skip
def test_what_costs_too_much_for_a_row_is_refused(
    process: CompileProcess, case: HostileSql
) -> None:
    with pytest.raises(InputError, match=r"on (one row|100 rows), it |CPU time"):
        process.compile(request(case.sql))


def test_a_subscription_that_fails_all_others_is_refused(process: CompileProcess) -> None:
    text = column("symbol", "WHERE price / CAST(:x AS DOUBLE) > 1 AND volume > :low")
    schema = pa.schema([("subscription", pa.string()), ("x", pa.float64()), ("low", pa.int64())])

    def subscribe(x: float) -> CompileRequest:
        rows = pa.Table.from_pylist([{"subscription": "s", "x": x, "low": 1}], schema=schema)
        return CompileRequest("template", "q", text, CATALOG, subscriptions=rows)

    process.compile(subscribe(0.5))
    with pytest.raises(InputError, match="fail for all others: division by zero"):
        process.compile(subscribe(0.0))


def test_a_function_that_sleeps_does_not_hold_up_the_next_submission(
    process: CompileProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_process, "ANSWER_SECONDS", 3.0)
    sleepy = UserFunction("tests.sql.test_compile_process:sleep", "DOUBLE")
    catalog = Catalog(CATALOG.streams, CATALOG.tables, {"sleepy": sleepy})
    process.compile(request(column("price")))  # the process runs
    with pytest.raises(InputError, match="to be compiled"):
        process.compile(CompileRequest("query", "q", column("sleepy(price)"), catalog))
    assert process.compile(request(column("price"))).kind == "stateless"


def sleep(column: pa.Array) -> pa.Array:
    time.sleep(600)
    return column


@pytest.mark.parametrize("name", ["divide-by-zero", "text-to-int", "template-many", "join-12"])
def test_a_failure_of_the_made_up_row_is_no_refusal(process: CompileProcess, name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    process.compile(request(case.sql, "template" if case.is_template else "query"))
