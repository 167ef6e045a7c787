"""What values and a run show of themselves in a notebook."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support.service_world import FakeRun, World, decision

from evenflow.errors import InputError
from evenflow.model import BalanceMetrics, Move, Outcome, Verdict, VerdictCode, hash_keys
from evenflow.spark import notebook
from evenflow.spark.protocol.registry import Hosted

HOT = int(hash_keys(pa.array(["hot"]))[0])


class ShownRun(FakeRun):
    """A run with three batches, a plan change and its outcome."""

    committed = 3

    def __init__(self) -> None:
        super().__init__()
        for number in range(3):
            self.batch(number)
        moves = (Move("k", 0, 1, HOT), Move("a", 1, 0))
        self.decisions = (decision(0), decision(1, plan=World().plan, moves=moves), decision(2))
        self.outcomes = (Outcome(1, 2, BalanceMetrics(1.1, 1.0, 0.9), 10, 0.0),)


def test_values_show_themselves_and_nothing_becomes_markup() -> None:
    plan = World().plan
    assert repr(plan).startswith("<Plan: workers 3, drained none, whole queries 2, keyed queries 1")
    made = replace(
        decision(7, plan=plan),
        message="<script>",
        verdicts=(Verdict(VerdictCode.HEAVY_KEY, "k", "one key is too heavy"),),
    )
    assert "because a worker had too much load" in repr(made)
    assert "one key is too heavy" in repr(made)
    assert "&lt;script&gt;" in made._repr_html_()
    assert "<script>" not in made._repr_html_()
    hosted = Hosted(
        name="pairs",
        uid="pairs@1",
        form="query",
        text="SELECT a < b",
        kind="join",
        streams=("trades",),
        schema=pa.schema([("ts", pa.int64())]),
        key_columns={"trades": ("symbol",)},
    )
    assert repr(hosted) == "<query pairs: kind join, streams trades, key symbol, columns ts>"
    assert "SELECT a &lt; b" in hosted._repr_html_()


def test_a_run_shows_itself() -> None:
    run: Any = ShownRun()
    line = notebook.show_line(run)
    assert line.startswith("<Run: state running, batches 3, queries 3, quarantined b")
    assert "<caption>Run</caption>" in notebook.show_html(run)


def test_decisions_and_moves_as_tables() -> None:
    run: Any = ShownRun()
    decisions = notebook.to_pandas(run)
    assert str(decisions["at"].dtype) == "datetime64[ns, UTC]"
    assert decisions["changed"].tolist() == [False, True, False]
    assert decisions["why"].unique().tolist() == ["a worker had too much load"]
    moves = notebook.to_pandas(run, "moves")
    assert moves[["query", "key", "after"]].values.tolist() == [["k", "hot", 1], ["a", None, 0]]
    assert moves["measured"].tolist() == [1.1, 1.1]
    run.batch_seconds = {1: 0.5}
    batches = notebook.to_pandas(run, "batches")
    assert batches["batch"].tolist() == [0, 1, 2]
    assert batches["batch_seconds"].tolist()[1] == 0.5
    assert notebook.to_pandas(run, "outcomes")["decision"].tolist() == [1]
    assert set(notebook.to_pandas(run, "queries")["name"]) == {"a", "b", "k"}
    with pytest.raises(InputError, match="got 'decision'"):
        notebook.to_pandas(run, "decision")


def test_explain() -> None:
    run: Any = ShownRun()
    assert notebook.explain(run).batch == 1
    assert notebook.explain(run, 2).batch == 2
    assert notebook.explain(run, key="hot")["batch"].tolist() == [1]
    assert notebook.explain(run, query="nothing").empty
    with pytest.raises(InputError, match="the last ones are 0 to 2"):
        notebook.explain(run, 9)
    run.decisions = (decision(0),)
    assert notebook.explain(run).batch == 0, "why nothing was changed"
    run.decisions = ()
    with pytest.raises(InputError, match="no decision yet"):
        notebook.explain(run)


def test_plot_has_loads_imbalance_and_batch_time() -> None:
    run: Any = ShownRun()
    run.batch_seconds = {0: 0.5, 2: 0.75, 9: 1.0}
    figure = notebook.plot(run)
    loads, ratios, times = figure.axes
    assert len(loads.lines) == 3 + 1, "a line for each worker, and the plan change"
    taken, intervals, _ = times.lines
    assert (taken.get_ydata()[0], taken.get_ydata()[2]) == (0.5, 0.75)
    assert intervals.get_ydata().tolist() == [2.0, 2.0, 2.0]
    assert [axis.get_ylim()[0] for axis in (loads, times)] == [0, 0]
    said = [text.get_text() for text in ratios.get_legend().get_texts()]
    assert said == ["bound", "plan changed"]
    assert ratios.get_ylabel() == "busiest worker over mean"
    run._snapshots = ()
    with pytest.raises(InputError, match="no batch"):
        notebook.plot(run)
