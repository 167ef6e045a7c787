"""What a run shows in a notebook: itself, its decisions as tables, and a plot."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from evenflow.errors import InputError, SetupError
from evenflow.model import Decision, Outcome, Plan, Snapshot, imbalance
from evenflow.model.facts import facts_html, facts_line
from evenflow.model.move_history import past_moves
from evenflow.model.words import reason_words, trigger_words
from evenflow.names import join_names
from evenflow.planning.controller import Balancing

_MAX_LINES = 16  # with more workers, a band
TABLES = ("batches", "decisions", "moves", "outcomes", "queries")


class ReadableRun(Protocol):
    """The part of a run that is shown."""

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Observations of the last batches."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last decisions."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The measured outcomes."""

    @property
    def queries(self) -> Mapping[str, Any]:
        """The hosted queries."""

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Queries that failed."""

    @property
    def committed(self) -> int:
        """The number of the next batch."""

    @property
    def plan(self) -> Plan:
        """The plan of the next batch."""

    @property
    def is_active(self) -> bool:
        """Whether batches are still run."""

    @property
    def checkpoint_uri(self) -> str:
        """Where its files are."""

    @property
    def batch_seconds(self) -> Mapping[int, float]:
        """How long the last batches took."""

    @property
    def balancing(self) -> Balancing:
        """The balancing settings."""


def run_facts(run: ReadableRun) -> dict[str, object]:
    """Return what a run says about itself."""
    loads = next((s.worker_loads() for s in reversed(run.snapshots) if not s.idle), np.zeros(0))
    changes = [decision for decision in run.decisions if decision.plan is not None]
    return {
        "state": "running" if run.is_active else "stopped",
        "batches": run.committed,
        "queries": len(run.queries),
        "quarantined": join_names(run.quarantined),
        "workers": f"{len(run.plan.active)} of {run.plan.workers} active",
        "imbalance": f"{imbalance(loads, run.plan.active):.2f}" if len(loads) else "not measured",
        "plan changes": len(changes),
        "checkpoint": run.checkpoint_uri,
    }


def show_line(self: ReadableRun) -> str:
    """Return the run in one line."""
    return facts_line("Run", run_facts(self))


def show_html(self: ReadableRun) -> str:
    """Return the run as a table."""
    return facts_html("Run", run_facts(self))


def explain(
    self: ReadableRun,
    decision: int | None = None,
    *,
    query: str | None = None,
    key: str | None = None,
) -> Any:
    """Explain a plan change, or with `query` or `key` list when it moved, as a pandas DataFrame.

    `decision` is the batch of the decision; default: the last one that changed the plan, or that
    says why none did.
    """
    if query is not None or key is not None:
        moves = past_moves(self.snapshots, self.decisions, self.outcomes, query=query, key=key)
        return _frame([_in_words(asdict(move)) for move in reversed(moves)])
    if decision is None:
        changes = [each for each in self.decisions if each.plan is not None]
        if not self.decisions:
            raise InputError("there is no decision yet: the first one follows the first batch")
        return (changes or self.decisions)[-1]
    for each in self.decisions:
        if each.batch == decision:
            return each
    known = [each.batch for each in self.decisions]
    between = f"{known[0]} to {known[-1]}" if known else "none"
    raise InputError(f"there is no decision {decision}; the last ones are {between}")


def to_pandas(self: ReadableRun, what: str = "decisions") -> Any:
    """Return `batches`, `decisions`, `moves`, `outcomes` or `queries` as a pandas DataFrame."""
    if what not in TABLES:
        raise InputError(f"to_pandas has {', '.join(TABLES)}; got {what!r}. Results: run.results()")
    rows: list[dict[str, Any]]
    if what == "batches":
        taken = self.batch_seconds
        rows = [_batch_row(snapshot, taken.get(snapshot.batch)) for snapshot in self.snapshots]
    elif what == "decisions":
        rows = [_decision_row(decision) for decision in self.decisions]
    elif what == "moves":
        found = past_moves(self.snapshots, self.decisions, self.outcomes)
        rows = [_in_words(asdict(move)) for move in found]
    elif what == "outcomes":
        rows = [
            {**asdict(outcome.measured), "decision": outcome.decision, "batch": outcome.batch,
             "handed_bytes": outcome.handed_bytes, "pause_seconds": outcome.pause_seconds,
             "duration_seconds": outcome.duration_seconds}
            for outcome in self.outcomes
        ]  # fmt: skip
    else:
        rows = [
            {"name": q.name, "form": q.form, "kind": q.kind, "streams": ", ".join(q.streams),
             "worker": self.plan.placement.get(q.name), "quarantined": self.quarantined.get(q.name)}
            for q in self.queries.values()
        ]  # fmt: skip
    return _frame(rows)


def plot(self: ReadableRun) -> Any:
    """Plot loads, imbalance and batch time over the last batches; needs `evenflow[figures]`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SetupError("plot needs matplotlib: pip install 'evenflow[figures]'") from None
    if not self.snapshots:
        raise InputError("no batch has finished yet; there is nothing to plot")
    batches = [snapshot.batch for snapshot in self.snapshots]
    loads = np.array([snapshot.worker_loads() for snapshot in self.snapshots])
    figure = Figure(figsize=(9, 7), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    if loads.shape[1] <= _MAX_LINES:
        for worker in range(loads.shape[1]):
            top.plot(batches, loads[:, worker], label=str(worker), linewidth=1)
        top.legend(title="worker", ncols=8, fontsize="small")
    else:
        low, middle_load, high = np.percentile(loads, (5, 50, 100), axis=1)
        top.fill_between(batches, low, high, alpha=0.3, label="5 % to busiest")
        top.plot(batches, middle_load, label="median worker")
        top.legend(fontsize="small")
    top.set_ylabel("load, CPU s per batch")
    top.set_ylim(bottom=0)
    ratios = [imbalance(s.worker_loads(), s.plan.active) for s in self.snapshots]
    middle.plot(batches, ratios)
    bound = 1 + self.balancing.max_imbalance
    middle.axhline(bound, linestyle="--", linewidth=1, color="tab:red", label="bound")
    middle.set_ylabel("busiest worker over mean")
    middle.set_ylim(bottom=0.95)
    times = self.batch_seconds
    taken = [times.get(batch, np.nan) for batch in batches]
    bottom.plot(batches, taken, label="a batch")
    intervals = [snapshot.interval_seconds for snapshot in self.snapshots]
    bottom.plot(batches, intervals, linestyle=":", color="grey", label="from batch to batch")
    bottom.set_ylabel("batch time, s")
    bottom.set_ylim(bottom=0)
    bottom.set_xlabel("batch")
    bottom.xaxis.get_major_locator().set_params(integer=True)
    changes = [decision.batch for decision in self.decisions if decision.plan is not None]
    for at in (batch for batch in changes if batches[0] <= batch <= batches[-1]):
        for axis in (top, middle, bottom):
            axis.axvline(at, color="tab:green", linewidth=0.8, alpha=0.6)
        middle.lines[-1].set_label("plan changed")
    handles = {line.get_label(): line for line in middle.lines[1:]}
    middle.legend(handles=handles.values(), fontsize="small")
    bottom.legend(fontsize="small")
    return figure


def _batch_row(snapshot: Snapshot, batch_seconds: float | None) -> dict[str, Any]:
    loads = snapshot.worker_loads()
    return {
        "batch": snapshot.batch,
        "at": snapshot.at,
        "seconds": snapshot.interval_seconds,  # since the batch before
        "batch_seconds": batch_seconds,
        "rows": int(sum(query.rows_in.sum() for query in snapshot.queries.values())),
        "max_load": float(loads.max()),
        "mean_load": float(loads.mean()),
        "imbalance": imbalance(loads, snapshot.plan.active),
    }


def _decision_row(decision: Decision) -> dict[str, Any]:
    predicted = decision.predicted
    return {
        "batch": decision.batch,
        "at": decision.at,
        "changed": decision.plan is not None,
        "why": trigger_words(decision.trigger),
        "what": reason_words(decision.reason),
        "message": decision.message,
        "imbalance": decision.before.imbalance,
        "predicted": None if predicted is None else predicted.imbalance,
        "moves": len(decision.moves),
        "moved_bytes": decision.moved_bytes,
        "verdicts": "; ".join(verdict.message for verdict in decision.verdicts),
    }


def _in_words(move: dict[str, Any]) -> dict[str, Any]:
    return move | {
        "trigger": trigger_words(move["trigger"]),
        "reason": reason_words(move["reason"]),
    }


def _frame(rows: list[dict[str, Any]]) -> Any:
    import pandas as pd

    frame = pd.DataFrame(rows)
    if "at" in frame:
        frame["at"] = pd.to_datetime(frame["at"], unit="s", utc=True)
    return frame
