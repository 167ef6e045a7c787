"""`evenflow replay` and `evenflow whatif`: questions to the recorded statistics of a run."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenflow.model import BalanceMetrics, Decision
    from evenflow.planning.controller import Balancing, Scenario, ScenarioResult

HistoryArgument = Annotated[
    str, typer.Argument(help="The checkpoint of a flow run with balancing.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AlgorithmOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A planner by name, or LEVEL=NAME with the levels keys, queries, operators, repair; "
        "`off`: none. May be given several times."
    ),
]
BatchesOption = Annotated[int | None, typer.Option(help="Only the last so many batches.")]


def replay_command(
    recorded: HistoryArgument,
    algorithm: AlgorithmOption = None,
    workers: Annotated[int | None, typer.Option(help="Replay with so many workers.")] = None,
    max_imbalance: Annotated[float, typer.Option(help="Load above the mean allowed.")] = 0.08,
    batches: BatchesOption = None,
    seed: Annotated[int, typer.Option(help="Seed of whatever is left to chance.")] = 0,
    json: JsonOption = False,
) -> None:
    """Run the controller over the recorded statistics of a run. Changes nothing."""
    from evenflow.cli.output import print_json, print_result
    from evenflow.planning.controller import replay_history as closed_loop
    from evenflow.storage.history import read_history

    config = balancing_from_options(algorithm or [], max_imbalance=max_imbalance, seed=seed)
    snapshots, _, _ = read_history(recorded, batches)
    found = closed_loop(snapshots, config, workers)
    result = {
        "batches": len(snapshots),
        "workers": workers or snapshots[0].plan.workers,
        "algorithms": _algorithms(config),
        "recorded": mean_judgements(found.recorded),
        "replayed": {**mean_judgements(found.replayed), **_move_totals(found.decisions)},
    }
    if json:
        print_json({**result, "decisions": [_decision_to_json(one) for one in found.decisions]})
        return
    rows = {
        f"{name.replace('_', ' ')}, {side}": f"{value:,.4g}"
        for side in ("recorded", "replayed")
        for name, value in result[side].items()  # type: ignore[attr-defined]
    }
    print_result(f"{len(snapshots)} batches replayed", rows, found.decisions[-1].verdicts)


def whatif_command(
    recorded: HistoryArgument,
    add: Annotated[int, typer.Option(help="Add so many workers.")] = 0,
    drop: Annotated[list[int] | None, typer.Option(help="Drop a worker, by number.")] = None,
    rate: Annotated[float, typer.Option(help="Multiply all rates.")] = 1.0,
    pin: Annotated[list[str] | None, typer.Option(help="Pin a query: QUERY=WORKER.")] = None,
    algorithm: AlgorithmOption = None,
    batches: BatchesOption = None,
    json: JsonOption = False,
) -> None:
    """Say what would follow if workers, rates or pins were other than they are. Changes nothing."""
    from evenflow.cli.output import print_json, print_result, verdicts_to_json
    from evenflow.errors import InputError
    from evenflow.planning.controller import Scenario
    from evenflow.planning.controller import evaluate_scenario as answer
    from evenflow.storage.history import read_history

    change = Scenario(add, frozenset(drop or ()), rate, dict(map(_parse_pin, pin or ())))
    if change == Scenario():
        raise InputError("nothing was asked; give --add, --drop, --rate or --pin")
    snapshots, _, _ = read_history(recorded, batches)
    found = answer(snapshots, change, balancing_from_options(algorithm or []))
    result = _answer_to_json(found, change)
    if json:
        print_json({**result, "verdicts": verdicts_to_json(found.verdicts)})
        return
    rows = {
        f"{name.replace('_', ' ')}, {side}": f"{value:,.4g}"
        for side in ("before", "after")
        for name, value in result[side].items()
    }
    rows["moves"] = f"{result['moves']:,}"
    rows["moved bytes"] = f"{result['moved_bytes']:,.4g}"
    print_result("What if", rows, found.verdicts)


def balancing_from_options(algorithms: list[str], **options: Any) -> "Balancing":
    """Turn `--algorithm` into settings; refuse names that no level has, or several."""
    from evenflow.errors import InputError
    from evenflow.planning.controller import Balancing
    from evenflow.planning.controller.config import CHOICES, OFF, PLANNER_SETTINGS

    chosen: dict[str, Any] = {}
    for text in algorithms:
        level, _, name = text.rpartition("=")
        levels = [one for one in PLANNER_SETTINGS if name in CHOICES[one]]
        if name == OFF and not level:
            chosen |= dict.fromkeys(PLANNER_SETTINGS, OFF)
        elif level in levels or (not level and len(levels) == 1):
            chosen[level or levels[0]] = name
        elif not level and levels:
            ways = " or ".join(f"{one}={name}" for one in levels)
            raise InputError(f"--algorithm {name} could mean several levels; write {ways}")
        else:
            known = {one: ", ".join(CHOICES[one]) for one in PLANNER_SETTINGS}
            raise InputError(
                f"--algorithm: unknown {text!r}; "
                + "; ".join(f"{one}: {names}" for one, names in known.items())
            )
    if chosen.get("keys") == OFF:
        chosen["promote"] = False
    return Balancing(**chosen, **options)


def mean_judgements(judgements: "Sequence[BalanceMetrics]") -> dict[str, float]:
    """Return the figures of a run: means over its batches, and the worst of them."""
    import numpy as np

    busy = [one for one in judgements if one.mean_load > 0] or list(judgements)
    return {
        "mean_imbalance": float(np.mean([one.imbalance for one in busy])),
        "worst_imbalance": float(np.max([one.imbalance for one in busy])),
        "busiest_worker_seconds": float(np.mean([one.max_load for one in busy])),
        "mean_worker_seconds": float(np.mean([one.mean_load for one in busy])),
        "shipped_bytes": float(np.mean([one.shipped_bytes for one in busy])),
    }


def _move_totals(decisions: "Sequence[Decision]") -> dict[str, float]:
    made = [decision for decision in decisions if decision.plan is not None]
    return {
        "plans": len(made),
        "moves": sum(len(decision.moves) for decision in made),
        "moved_bytes": sum(decision.moved_bytes for decision in made),
    }


def _algorithms(config: "Balancing") -> dict[str, str]:
    from evenflow.planning.controller.config import PLANNER_SETTINGS

    return {level: getattr(config, level) for level in PLANNER_SETTINGS}


def _decision_to_json(decision: "Decision") -> dict[str, Any]:
    from dataclasses import asdict

    from evenflow.cli.output import verdicts_to_json

    return {
        "batch": decision.batch,
        "trigger": decision.trigger,
        "reason": decision.reason,
        "message": decision.message,
        "before": asdict(decision.before),
        "predicted": None if decision.predicted is None else asdict(decision.predicted),
        "moves": len(decision.moves),
        "moved_bytes": decision.moved_bytes,
        "verdicts": verdicts_to_json(decision.verdicts),
    }


def _answer_to_json(found: "ScenarioResult", change: "Scenario") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "asked": {
            "add": change.added_workers,
            "drop": sorted(change.dropped_workers),
            "rate": change.rate_factor,
            "pins": dict(change.pins),
        },
        "workers": len(found.plan.active),
        "before": asdict(found.before),
        "after": asdict(found.after),
        "moves": len(found.moves),
        "moved_bytes": found.moved_bytes,
        "moved_queries": {move.query: move.after for move in found.moves if move.key_hash is None},
    }


def _parse_pin(text: str) -> tuple[str, int]:
    from evenflow.errors import InputError

    name, _, worker = text.rpartition("=")
    if not name or not worker.isdecimal():
        raise InputError(f"--pin must be QUERY=WORKER, got {text!r}")
    return name, int(worker)
