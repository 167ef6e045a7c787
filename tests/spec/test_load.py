"""A specification is checked as a whole: all problems at once, with positions."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.spec import CheckedSpec, SpecError, load_spec
from evenflow.spec.document import Document

GOOD = """\
workers: 2
checkpoint: run
datasets:
  market: {kind: market, batches: 2, rows: 50, limits: 3}
sources:
  trades: {dataset: market, time: ts, watermark: 1 second}
queries:
  dear: SELECT ts, symbol FROM trades WHERE price > 100
"""


def read(tmp_path: Path, text: str, *overrides: str) -> CheckedSpec:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    return load_spec(path, overrides)


def refusals(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text, *overrides)
    return [str(p).replace(str(tmp_path / "spec.yaml"), "spec") for p in caught.value.problems]


def test_a_valid_specification_is_accepted(tmp_path: Path) -> None:
    checked = read(tmp_path, GOOD)
    assert checked.order == ("dear",)
    assert checked.schemas["trades"].names == ["ts", "symbol", "price", "qty"]
    assert checked.resolve("in") == str(tmp_path / "in")


def test_all_problems_are_reported_with_positions(tmp_path: Path) -> None:
    text = GOOD.replace("workers: 2", "worker: 2").replace("time: ts", "tme: ts")
    text += "  odd: {sql: SELECT 1, key: 5, publish: maybe}\n"
    assert refusals(tmp_path, text) == [
        "spec:1:1: worker: unknown field; did you mean 'workers'? The fields are name, "
        "workers, checkpoint, durability, storage, trigger, available_now, compare, datasets, "
        "sources, tables, queries, templates, operators, functions, balancing, alerts, tenants, "
        "limits, results, sinks, spark, service",
        "spec:1:1: workers: is required but missing",
        "spec:6:11: sources.trades.time: is required but missing",
        "spec:6:29: sources.trades.tme: unknown field; did you mean 'time'? The fields are "
        "format, path, options, schema, select, dataset, part, time, watermark, max_ahead, "
        "on_bad_file",
        "spec:9:29: queries.odd.key: expected a column, a list of columns or {stream: columns}, "
        "got 5",
        "spec:9:41: queries.odd.publish: expected true or false, got 'maybe'",
    ]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("1 second", "1 parsec", "spec:6:50: sources.trades.watermark: watermark '1 parsec' has"),
        ("workers: 2", "workers: true", "spec:1:10: workers: expected an integer, got True"),
        ("rows: 50", "rows: on", "spec:4:44: datasets.market.rows: expected an integer, got True"),
        ("time: ts", "time: at", "spec:6:35: sources.trades.time: the event-time column 'at' is"),
        ("kind: market", "kind: moon", "spec:4:18: datasets.market.kind: expected one of 'market'"),
        ("rows: 50", "rows: 0", "spec:4:11: datasets.market: rows must be 1 or more, got 0"),
        (
            "dataset: market",
            "dataset: m",
            "sources.trades.dataset: unknown dataset 'm'; datasets",
        ),
        (
            "  trades: {",
            "  tales: {",
            "sources.tales.dataset: dataset 'market' has no stream",
        ),
        ("price > 100", "prise > 100", "spec:8:9: queries.dear.sql: query 'dear': there is no col"),
        ("  dear:", "  trades:", "queries.trades: the name is already used in sources; rename one"),
        ("  dear:", "  'a b':", "queries.a b: 'a b' cannot name a query; use letters"),
        ("workers: 2", "workers: 2\nworkers: 3", "spec:2:1: workers: is given twice; keep one"),
        ("workers: 2", "workers: [2", "spec:2:11: not valid YAML: expected ',' or ']'"),
        (
            "workers: 2",
            "workers: ${NOT_SET}",
            "spec:1:10: workers: environment variable NOT_SE",
        ),
        ("workers: 2", "workers: 0", "workers: input should be greater than or equal to 1, got 0"),
        ("{dataset: market, t", "{t", "spec:6:11: sources.trades: needs either `format` or `da"),
        ("dataset: market", "format: csv", "sources.trades.schema: is required but missing; write"),
    ],
)
def test_problem_messages(tmp_path: Path, before: str, after: str, wanted: str) -> None:
    assert before in GOOD
    first, *others = refusals(tmp_path, GOOD.replace(before, after, 1))
    assert wanted in first
    assert not others or "tales" in after  # which its query does not find either


MORE = """\
  late: {sql: SELECT ts FROM early}
  early: {sql: "SELECT ts, price FROM trades", publish: true, worker: 7}
  both: {sql: "SELECT ts FROM trades", key: symbol, worker: 1}
tables:
  few: {schema: "a INT, b STRING", rows: [{a: 1}]}
  files: {format: csv, path: nowhere/*.csv, schema: "a INT"}
templates:
  limit: {sql: "SELECT ts FROM trades WHERE symbol = :s", subscriptions: none.csv}
  above: {sql: "SELECT ts FROM trades WHERE price > :p", subscriptions: {dataset: market, part: x}}
functions:
  upper: {function: "math:sqrt", returns: DOUBLE}
operators:
  own: {class: "no.such:Thing", streams: trades}
sinks:
  out: {format: parquet, path: out}
  to: {format: parquet, queries: [dear, deer]}
"""


def test_references_between_sections_are_checked(tmp_path: Path) -> None:
    found = refusals(tmp_path, GOOD + MORE)
    expected = [
        "queries.early.worker: unknown worker 7; workers are 0..1",
        "queries.both.worker: a keyed query runs on all workers; remove worker or key",
        "tables.few.rows: row 1 lacks 'b'; columns: a, b",
        f"tables.files.path: got 'nowhere/*.csv'; no file matches {tmp_path}/nowhere/*.csv",
        "templates.limit.subscriptions: got 'none.csv'; no such file",
        "templates.above.subscriptions: dataset 'market' has no table 'x'; tables: limits, sectors",
        "functions.upper: function 'upper' exists already",
        "operators.own.class: no.such:Thing cannot be imported",
        "sinks.out.path: 7 queries would write to the same path; add {query} to it",
        "sinks.to.path: is required for the format parquet, but missing",
        "sinks.to.queries.1: unknown query 'deer'; "
        "queries: above, both, dear, early, late, limit, own",
    ]
    assert len(found) == len(expected)
    for said, wanted in zip(found, expected, strict=True):
        assert wanted in said


def test_queries_are_sorted_topologically(tmp_path: Path) -> None:
    text = GOOD + '  a: SELECT ts FROM b\n  b: {sql: "SELECT ts FROM c", publish: true}\n'
    order = read(tmp_path, text + '  c: {sql: "SELECT ts FROM trades", publish: true}\n').order
    assert order.index("c") < order.index("b") < order.index("a")
    (ring,) = refusals(tmp_path, text + '  c: {sql: "SELECT ts FROM b", publish: true}\n')
    assert "queries read each other in a cycle" in ring
    found = refusals(tmp_path, text + "  c: SELECT ts FROM trades\n")
    assert found == [
        "spec:10:6: queries.b: reads query 'c', which is not published; set publish: true"
    ]  # and not what follows from it for a


def test_overrides(tmp_path: Path) -> None:
    text = GOOD + "sinks: {out: {format: console, queries: [dear, dear]}}\n"
    checked = read(
        tmp_path,
        text,
        "workers=5",
        "queries.new=SELECT ts FROM trades",
        "datasets.market.rows=7",
        "sinks.out.queries.1=new",
        "spark.config.a=true",
    )
    assert checked.spec.workers == 5
    assert checked.order == ("dear", "new")
    assert checked.spec.sinks["out"].queries == ("dear", "new")
    assert checked.spec.spark.config == {"a": True}
    assert refusals(tmp_path, text, "workers=many") == [
        "--set workers=many: workers: expected an integer, got 'many'"
    ]
    for odd in ("workers", "=3", "workers.x=1", "sinks.out.queries.9=a", "a=[1"):
        with pytest.raises(InputError):
            read(tmp_path, text, odd)


def test_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "there")
    text = GOOD.replace("checkpoint: run", "checkpoint: ${PLACE}/${KIND:-new}")
    assert read(tmp_path, text).spec.checkpoint == "there/new"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_subscriptions_come_from_files(tmp_path: Path, suffix: str) -> None:
    rows = {".csv": "subscription,limit,s\n007,5,A\n8,6.5,B\n",
            ".jsonl": '{"subscription": "007", "limit": 5, "s": "A"}\n'
                      '{"subscription": "8", "limit": 6.5, "s": "B"}\n'}  # fmt: skip
    (tmp_path / f"subs{suffix}").write_text(rows[suffix])
    text = GOOD + (
        'templates:\n  t: {sql: "SELECT ts FROM trades WHERE symbol = :s AND price > :limit", '
        f"subscriptions: subs{suffix}}}\n"
    )
    assert read(tmp_path, text).subscriptions["t"].to_pylist() == [
        {"subscription": "007", "limit": 5.0, "s": "A"},
        {"subscription": "8", "limit": 6.5, "s": "B"},
    ]


def test_the_starter_is_valid(tmp_path: Path) -> None:
    starter = Path(__file__).parents[2] / "src/evenflow/spec/starter.yaml"
    read(tmp_path, starter.read_text())


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        Document("any", text)
    except SpecError as error:
        assert all(p.message for p in error.problems)
