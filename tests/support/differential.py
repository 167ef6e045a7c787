"""Both engines answer: ours without Spark, and Spark's batch SQL (ANSI, UTC) on the same rows."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from tests.support.function_calls import is_inexact
from tests.support.sql_grammar import INEXACT, Expr, with_leaves
from tests.support.sql_values import SCHEMA

from evenflow import run_local
from evenflow.errors import InputError
from evenflow.sql import Catalog, Engine, Program, Stream, compile_query
from evenflow.sql.spill import EngineMemory
from evenflow.sql.types import canonical_type

FAILS = "fails"
GROUP = 20
VIEW = "fuzz_rows"
_VIEWS: dict[str, pa.Table] = {}  # what Spark's views hold
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
INTERPRETED = {  # quick: expressions over small tables are evaluated without a job
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.optimizer.excludedRules": "",
}
COMPILED = {  # as over files: optimized, compiled, then evaluated
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer."
    "ConvertToLocalRelation",
}
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Difference:
    """An expression or a query on which the engines differ, with the rows that show it."""

    shape: str  # what differs, without the values
    category: str  # value, type, ours fails, spark fails, spark refuses
    sql: str
    data: dict[str, pa.Table]  # t, u: streams; r: a reference table
    ours: str
    spark: str

    @property
    def signature(self) -> tuple[str, str]:
        return self.shape, self.category


@dataclass
class Answer:
    """The type, and the value or FAILS by row; a refusal has no type."""

    type: pa.DataType | None
    values: dict[int, Any] = field(default_factory=dict)
    message: str = ""


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Return values that compare exactly: floats by their text, times as numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_struct(kind):
        parts = [plain(pa.chunked_array([part])) for part in column.combine_chunks().flatten()]
        valid = column.is_valid().to_pylist()
        return [tuple(v) if ok else None for ok, *v in zip(valid, *parts, strict=True)]
    values = column.to_pylist()
    return [repr(v) if isinstance(v, float | list) else v for v in values]


def register_view(spark: SparkSession, name: str, rows: pa.Table) -> None:
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    spark.createDataFrame(rows, schema=schema).createOrReplaceTempView(name)


def fuzz_session(spark: SparkSession) -> SparkSession:
    """Return a session of its own: no compiled code and few tasks, as there are few rows."""
    session = spark.newSession()
    for name, value in {**SETTINGS, **INTERPRETED}.items():
        session.conf.set(name, value)
    _VIEWS.clear()
    return session


def evaluate(frame: DataFrame) -> None:
    """Compute a frame without a job, and without Python, which has its own limits."""
    frame._jdf.queryExecution().executedPlan().executeCollect()


def is_refusal(error: Exception) -> bool:
    return isinstance(error, AnalysisException | ParseException)


class Duel:
    """One set of rows, and both engines on it."""

    def __init__(self, spark: SparkSession, rows: pa.Table, *, failing_rows: int = 1) -> None:
        self.spark, self.rows, self.failing_rows = spark, rows, failing_rows
        self.catalog = Catalog({"t": Stream(SCHEMA, "ts")})
        self.engine = Engine(memory=EngineMemory(1 << 30))
        self.refused = 0
        register_view(spark, VIEW, rows)

    def close(self) -> None:
        self.engine.close()

    def differences(self, expressions: Sequence[Expr]) -> list[tuple[Expr, int | None, Difference]]:
        """Return (expression, row, difference) for each expression on which the engines differ."""
        ours = [self._ours(e.text) for e in expressions]
        asked = [(e, answer) for e, answer in zip(expressions, ours, strict=True) if answer.type]
        self.refused += len(expressions) - len(asked)
        found = []
        for begin in range(0, len(asked), GROUP):
            group = asked[begin : begin + GROUP]
            answers = self._spark([(e.text, a.values) for e, a in group])
            for (e, mine), theirs in zip(group, answers, strict=True):
                difference = self._compare(e, mine, theirs)
                if difference is not None and self._is_real(difference[1]):
                    found.append((e, *difference))
        return found

    def _is_real(self, difference: Difference) -> bool:
        """Ask once more about failures, as a query: compiled code may evaluate fewer operands."""
        if "fails" not in difference.category:
            return True
        return compare_query(self.spark, difference.sql, difference.data) is not None

    def _ours(self, text: str) -> Answer:
        try:
            program = compile_query("q", f"SELECT id, {text} AS c FROM t", self.catalog)
        except InputError as refused:
            return Answer(None, message=str(refused))
        rows = self.rows.select(program.reads["t"])
        answer = Answer(program.schema.field("c").type)
        try:
            answer.values = self._step(program, rows)
        except Exception:  # any error quarantines the query
            for at in range(len(rows)):
                try:
                    answer.values |= self._step(program, rows.slice(at, 1))
                except Exception as failed:
                    answer.values[at], answer.message = FAILS, str(failed)
        return answer

    def _step(self, program: Program, rows: pa.Table) -> dict[int, Any]:
        got = program.open(self.engine).step({"t": rows}, 0).rows
        return dict(zip(got["id"].to_pylist(), plain(got["c"]), strict=True))

    def _spark(self, asked: Sequence[tuple[str, Mapping[int, Any]]]) -> list[Answer]:
        """Ask for many expressions at once, each on the rows that ours answers."""
        columns = []
        for at, (text, values) in enumerate(asked):
            failing = [str(row) for row, value in values.items() if value is FAILS]
            guarded = f"CASE WHEN id NOT IN ({', '.join(failing)}) THEN {text} END"
            columns.append(f"{guarded if failing else text} AS c{at}")
        try:
            frame = self.spark.sql(f"SELECT id, {', '.join(columns)} FROM {VIEW}")
            evaluate(frame)
            got = frame.toArrow()
        except Exception as error:
            if len(asked) > 1:
                half = len(asked) // 2
                return self._spark(asked[:half]) + self._spark(asked[half:])
            return [self._spark_by_row(*asked[0], error)]
        ids, answers = got["id"].to_pylist(), []
        for at, (text, values) in enumerate(asked):
            column = got[f"c{at}"]
            answer = Answer(column.type, dict(zip(ids, plain(column), strict=True)))
            self._ask_failing(text, values, answer)
            answers.append(answer)
        return answers

    def _ask_failing(self, text: str, values: Mapping[int, Any], answer: Answer) -> None:
        """Ask for some rows on which ours fails; the others count as failing."""
        failing = [row for row, value in values.items() if value is FAILS]
        for row in failing[self.failing_rows :]:
            answer.values[row] = FAILS
        for row in failing[: self.failing_rows]:
            frame = self.spark.sql(f"SELECT {text} AS c FROM {VIEW} WHERE id = {row}")
            try:
                evaluate(frame)
                answer.values[row] = plain(frame.toArrow()["c"])[0]
            except Exception:
                answer.values[row] = FAILS

    def _spark_by_row(self, text: str, values: Mapping[int, Any], error: Exception) -> Answer:
        """Find a row on which Spark fails and ours does not; the others are not compared."""
        message = str(error).splitlines()[0]
        if is_refusal(error):
            return Answer(None, message=message)
        rows = [row for row, value in values.items() if value is not FAILS]
        while len(rows) > 1:
            half = rows[: len(rows) // 2]
            listed = ", ".join(map(str, half))
            try:
                evaluate(self.spark.sql(f"SELECT {text} AS c FROM {VIEW} WHERE id IN ({listed})"))
                rows = rows[len(half) :]
            except Exception:
                rows = half
        # Without rows ours fails on all of them, and Spark on a constant, before it reads one.
        return Answer(None, {**values, **dict.fromkeys(rows, FAILS)}, message)

    def _compare(
        self, e: Expr, mine: Answer, theirs: Answer
    ) -> tuple[int | None, Difference] | None:
        def difference(category: str, row: int, ours: object, spark: object) -> Any:
            one = self.rows.slice(row, 1)
            sql = f"SELECT {e.text} AS c FROM t"
            return row, Difference(e.shape, category, sql, {"t": one}, str(ours), str(spark))

        inexact = e.template in INEXACT or is_inexact(e.template)
        if theirs.type is None and not theirs.values:
            return difference("spark refuses", 0, mine.type, theirs.message)  # type: ignore[no-any-return]
        for row, value in mine.values.items():
            other = theirs.values.get(row)
            if value is FAILS or other is FAILS:
                if value is not other:
                    category = "ours fails" if value is FAILS else "spark fails"
                    shown = mine.message if value is FAILS else value
                    return difference(category, row, shown, other)  # type: ignore[no-any-return]
            elif theirs.type is not None and canonical_type(theirs.type) != mine.type:
                return difference("type", row, mine.type, theirs.type)  # type: ignore[no-any-return]
            elif value != other and not (inexact and close(value, other)):
                return difference("value", row, repr(value), repr(other))  # type: ignore[no-any-return]
        return None

    def explain(self, e: Expr) -> Difference | None:
        """Shrink a difference to the innermost node that differs, over columns of its operands."""
        nodes = list(dict.fromkeys(e.nodes()))
        found = self.differences(nodes)
        if not found:
            return None
        node, row, difference = min(found, key=lambda item: nodes.index(item[0]))
        isolated = self._isolate(node, row or 0)
        if isolated is None and any(
            self._ours(arg.text).values.get(row or 0) is FAILS for arg in node.args
        ):  # one engine does not evaluate it here
            return replace(difference, shape=f"operand fails: {node.shape}")
        return isolated or difference

    def _isolate(self, node: Expr, row: int) -> Difference | None:
        if not node.args:
            return None
        leaves, columns = {}, {"ts": self.rows["ts"].slice(row, 1)}
        for at, arg in enumerate(node.args):
            if arg.is_literal:
                continue
            try:
                got = run_local(f"SELECT {arg.text} AS c FROM t", {"t": self.rows.slice(row, 1)},
                                time="ts")  # fmt: skip
            except Exception:
                return None
            name = f"a{at}"
            leaves[at], columns[name] = Expr(name, arg.kind), got["c"]
        if any(pa.types.is_null(column.type) for column in columns.values()):
            return None
        sql = f"SELECT {with_leaves(node, leaves).text} AS c FROM t"
        found = compare_query(self.spark, sql, {"t": pa.table(columns)})
        if found is None:
            return None
        return replace(found, shape=node.shape)


def close(a: object, b: object) -> bool:
    try:
        x, y = float(str(a)), float(str(b))
    except ValueError:
        return False
    return x == y or abs(x - y) <= 1e-12 * max(abs(x), abs(y)) or str(x) == str(y)


def compare_query(
    spark: SparkSession, sql: str, data: Mapping[str, pa.Table], **options: Any
) -> Difference | None:
    """Run one query on both engines; rows compare as multisets, sums of doubles to 12 digits."""
    ours: pa.Table | str
    streams = {name: rows for name, rows in data.items() if name != "r"}
    tables = {name: rows for name, rows in data.items() if name == "r"}
    try:
        ours = run_local(sql, streams, time="ts", tables=tables, **options)
    except InputError:
        raise
    except Exception as failed:  # any error quarantines the query
        ours = str(failed)
    for name, rows in data.items():
        if _VIEWS.get(name) is not rows:
            register_view(spark, name, rows)
            _VIEWS[name] = rows
    category, theirs = _ask_spark(spark, sql)
    if (category == "spark fails") != isinstance(ours, str):
        # Optimized and compiled code may evaluate fewer operands.
        with compiled(spark):
            category, theirs = _ask_spark(spark, sql)
    if isinstance(ours, str) and isinstance(theirs, str):
        return None
    if isinstance(ours, str):
        category = "ours fails"
    elif not isinstance(theirs, str):
        if [f.type for f in ours.schema] != [canonical_type(f.type) for f in theirs.schema]:
            category = "type"
        elif same_rows(ours, theirs):
            return None
        else:
            category = "value"
    return Difference(
        sql, category, sql, dict(data), *(_shown(answer, category) for answer in (ours, theirs))
    )


def _ask_spark(spark: SparkSession, sql: str) -> tuple[str, pa.Table | str]:
    try:
        return "", spark.sql(sql).toArrow()
    except Exception as error:
        category = "spark refuses" if is_refusal(error) else "spark fails"
        return category, str(error).splitlines()[0]


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Let Spark compile queries inside the block, as it does by default."""
    try:
        for name, value in COMPILED.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in INTERPRETED.items():
            spark.conf.set(name, value)


def _shown(answer: pa.Table | str, category: str) -> str:
    if isinstance(answer, str):
        return answer
    if category == "type":
        return ", ".join(map(str, answer.schema.types))
    return repr(lines(answer))


def lines(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [plain(column) for column in table.columns]
    return sorted(zip(*columns, strict=True), key=_rounded) if columns else []


def _rounded(line: Iterable[Any]) -> str:
    return repr([_round(value) for value in line])


def _round(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_round, value))
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        return value
    return value if number is None or value == "-0.0" else f"{number:.11e}"


def same_rows(ours: pa.Table, theirs: pa.Table) -> bool:
    return [_rounded(line) for line in lines(ours)] == [_rounded(line) for line in lines(theirs)]
