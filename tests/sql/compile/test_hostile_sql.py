"""Hostile statements: refused with a short message, or compiled to SQL of bounded size."""

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.support.dear_sql import DEEP
from tests.support.hostile_sql import CASES, CATALOG, MAX_SECONDS, HostileSql, nest
from tests.support.hostile_sql import SCHEMA as SCHEMA_OF_TRADES
from tests.support.sql_grammar import Grammar
from tests.support.sql_values import SCHEMA, rows

from evenflow.errors import MAX_ERROR_CHARACTERS, InputError
from evenflow.sql import Catalog, Engine, Program, QueryFailed, Stream, compile_query
from evenflow.sql.program import MAX_CHARACTERS_WRITTEN
from evenflow.sql.query_plan import nodes_bottom_up, written_characters
from evenflow.sql.spill import EngineMemory
from evenflow.sql.translate import typed_expr


@pytest.fixture(scope="module")
def within_limits() -> None:
    """Compile the corpus in a process that is killed where the old code needed gigabytes."""
    code = (
        "import resource; from tests.support.hostile_sql import CASES, statements; "
        f"seconds = len(CASES) * {MAX_SECONDS}; "
        "resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds))); "
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30)); print(sum(1 for _ in "
        "statements()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == sum(case.accepted for case in CASES)


@pytest.mark.usefixtures("within_limits")
@pytest.mark.parametrize("case", (*CASES, *DEEP), ids=lambda case: case.name)
def test_a_hostile_statement_is_refused_or_small(case: HostileSql) -> None:
    if not case.accepted:
        with pytest.raises(InputError) as refused:
            case.compile()
        assert len(str(refused.value)) <= MAX_ERROR_CHARACTERS
        return
    assert characters(case.compile()) <= MAX_CHARACTERS_WRITTEN


def characters(program: Program) -> int:
    return sum(map(written_characters, nodes_bottom_up(program.plan.root)))


@pytest.mark.parametrize(
    "template",
    ["round({}, 2)", "({} / 3)", "({} % 7)", "ln({})", "power({}, 2)", "nullif({}, 1)",
     "CASE {} WHEN 1 THEN 2 ELSE 3 END", "CAST(CAST({} AS FLOAT) AS DOUBLE)",
     "CASE WHEN {} BETWEEN 1 AND 2 THEN 1 ELSE 2 END"],
)  # fmt: skip
def test_nesting_makes_sql_longer_by_the_same_amount_at_each_level(template: str) -> None:
    sizes = [
        characters(compile_query("q", f"SELECT {nest(template, depth)} AS c FROM trades", CATALOG))
        for depth in (8, 16, 24)
    ]
    assert sizes[2] - sizes[1] <= 1.2 * (sizes[1] - sizes[0])


def test_operands_that_are_bound_give_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same 300 expressions with all operands copied, all bound, and only long ones bound."""
    table, grammar, bound = rows(7), Grammar(7), 0
    catalog, engine = Catalog({"t": Stream(SCHEMA, "ts")}), Engine(memory=EngineMemory(1 << 30))
    for _ in range(300):
        text = f"SELECT id, {grammar.expression().text} AS c FROM t"
        answers = []
        for limit in (10**9, 0, 40):
            monkeypatch.setattr(typed_expr, "MAX_COPIED_CHARACTERS", limit)
            try:
                program = compile_query("q", text, catalog)
            except InputError:
                break
            bound += "lambda" in str(program.plan.root) and limit == 0
            answers.append(answer(program, engine, table))
        assert len(answers) in (0, 3)
        assert all(other == answers[0] for other in answers), text
    assert bound > 50


def answer(program: Program, engine: Engine, table: pa.Table) -> list[str]:
    """Return the results as text, row by row where one fails."""
    table = table.select(program.reads["t"])
    try:
        rows = program.open(engine).step({"t": table}, 0).rows
        for at, column in enumerate(rows.schema):
            if pa.types.is_temporal(column.type):  # Python has no year above 9999
                wide = pa.int32() if pa.types.is_date(column.type) else pa.int64()
                rows = rows.set_column(at, column.name, rows.column(at).cast(wide))
        return [str(row) for row in rows.to_pylist()]
    except QueryFailed:
        if len(table) == 1:
            return ["fails"]
        one_by_one = (table.slice(at, 1) for at in range(len(table)))
        return [line for one in one_by_one for line in answer(program, engine, one)]


def test_a_bound_operand_is_not_evaluated_in_a_branch_that_is_not_taken() -> None:
    long = nest("(1 / {})", 6, "volume")
    sql = f"SELECT CASE WHEN volume <> 0 THEN round({long}, 2) ELSE -1 END AS c FROM trades"
    program = compile_query("q", sql, CATALOG)
    assert "lambda" in str(program.plan.root)
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    table = pa.Table.from_pylist(
        [{"ts": moment, "volume": volume} for volume in (0, 2, None)],
        schema=pa.schema([SCHEMA_OF_TRADES.field(name) for name in program.reads["trades"]]),
    )
    results = program.open(Engine()).step({"trades": table}, 0).rows
    assert results["c"].to_pylist() == [-1.0, 2.0, -1.0]
