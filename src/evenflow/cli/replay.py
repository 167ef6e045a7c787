"""`evenflow replay` and `evenflow whatif`: evaluate the recorded history of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from json import loads
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.find_run import find_store
from evenflow.cli.options import JsonOption
from evenflow.cli.output import (
    format_bytes,
    print_balance,
    print_json,
    print_verdicts,
    verdicts_to_json,
)
from evenflow.errors import InputError

if TYPE_CHECKING:
    from evenflow.model import BalanceMetrics, Decision
    from evenflow.planning.controller import Balancing, Scenario, ScenarioResult

HistoryArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run with balancing: its specification or checkpoint."),
]
AlgorithmOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A planner by name, or LEVEL=NAME with the levels keys, queries, operators, repair; "
        "`off`: none. Can be repeated."
    ),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of `balancing`: NAME=VALUE. Can be repeated."),
]
BatchesOption = Annotated[int | None, typer.Option(help="Only the last N batches.", metavar="N")]


def replay_command(
    recorded: HistoryArgument,
    algorithm: AlgorithmOption = None,
    workers: Annotated[int | None, typer.Option(help="Replay with this many workers.")] = None,
    max_imbalance: Annotated[float, typer.Option(help="Load above the mean allowed.")] = 0.08,
    batches: BatchesOption = None,
    seed: Annotated[int, typer.Option(help="Seed of randomised planners.")] = 0,
    settings: SettingOption = None,
    json: JsonOption = False,
) -> None:
    """Run the controller over the recorded history of a run. Changes nothing."""
    from evenflow.planning.controller import replay_history
    from evenflow.planning.controller.config import PLANNER_SETTINGS
    from evenflow.storage.history import read_history

    options = {"max_imbalance": max_imbalance, "seed": seed, **parse_settings(settings or [])}
    config = balancing_from_options(algorithm or [], **options)
    snapshots, _, _ = read_history(find_store(recorded), batches)
    replayed = replay_history(snapshots, config, workers)
    decisions = replayed.decisions
    result: dict[str, Any] = {
        "batches": len(snapshots),
        "workers": workers or snapshots[0].plan.workers,
        "algorithms": {level: getattr(config, level) for level in PLANNER_SETTINGS},
        "recorded": mean_metrics(replayed.recorded),
        "replayed": {**mean_metrics(replayed.replayed), **_move_totals(decisions)},
    }
    if json:
        print_json({**result, "decisions": [_decision_to_json(each) for each in decisions]})
        return
    names = {"shipped_bytes": "all_shipped_bytes"}  # to keyed queries too
    sides = {
        side: {names.get(name, name): value for name, value in result[side].items()}
        for side in ("recorded", "replayed")
    }
    print_balance(f"{len(snapshots)} batches replayed", sides)
    print_verdicts(verdict.message for verdict in decisions[-1].verdicts)


def whatif_command(
    recorded: HistoryArgument,
    add: Annotated[int, typer.Option(help="Number of workers to add.")] = 0,
    drop: Annotated[list[int] | None, typer.Option(help="Worker to remove.")] = None,
    rate: Annotated[float, typer.Option(help="Factor for all rates.")] = 1.0,
    pin: Annotated[list[str] | None, typer.Option(help="Pin a query: QUERY=WORKER.")] = None,
    algorithm: AlgorithmOption = None,
    batches: BatchesOption = None,
    settings: SettingOption = None,
    json: JsonOption = False,
) -> None:
    """Predict the effect of other workers, rates or pins on a recorded run. Changes nothing."""
    from evenflow.planning.controller import Scenario, evaluate_scenario
    from evenflow.storage.history import read_history

    scenario = Scenario(add, frozenset(drop or ()), rate, dict(map(_parse_pin, pin or ())))
    if scenario == Scenario():
        raise InputError("no change given; add --add, --drop, --rate or --pin")
    snapshots, _, _ = read_history(find_store(recorded), batches)
    config = balancing_from_options(algorithm or [], **parse_settings(settings or []))
    predicted = evaluate_scenario(snapshots, scenario, config)
    result = _scenario_to_json(predicted, scenario)
    if json:
        print_json({**result, "verdicts": verdicts_to_json(predicted.verdicts)})
        return
    totals = {"moves": result["moves"], "moved_bytes": result["moved_bytes"]}
    print_balance("what if", {"before": result["before"], "after": {**result["after"], **totals}})
    print_verdicts(verdict.message for verdict in predicted.verdicts)
    typer.echo(what_if_sentence(result))
    if predicted.message:
        typer.echo(f"The plan: {predicted.message}")


def what_if_sentence(result: Mapping[str, Any]) -> str:
    """Say in one sentence what a scenario would change."""
    before, after = result["before"], result["after"]
    change = after["max_load"] / before["max_load"] - 1 if before["max_load"] else 0.0
    verdict = "as long as" if abs(change) < 0.005 else f"{abs(change):.0%} "
    verdict += "" if abs(change) < 0.005 else "longer than" if change > 0 else "less than"
    moves = f"{result['moves']:,} move{'' if result['moves'] == 1 else 's'}"
    return (
        f"With {result['workers']} workers the busiest one would work "
        f"{after['max_load']:.3f} CPU seconds per batch, {verdict} now ({before['max_load']:.3f}); "
        f"it would carry {after['imbalance']:.2f} times the mean instead of "
        f"{before['imbalance']:.2f}. It takes {moves} and {format_bytes(result['moved_bytes'])} of "
        "state."
    )


def parse_settings(texts: list[str]) -> dict[str, Any]:
    """Return the settings of `--set`; InputError if a name or a value is none.

    >>> parse_settings(["beta=1.2", "max_owners=4", "promote=false"])
    {'beta': 1.2, 'max_owners': 4, 'promote': False}
    """
    from evenflow.planning.controller import Balancing

    numbers = {f.name for f in fields(Balancing) if f.type is not str} - {"allow", "autoscale"}
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in numbers:
            known = ", ".join(sorted(numbers))
            raise InputError(f"--set needs NAME=VALUE with one of {known}; got {text!r}")
        try:
            settings[name] = loads(value)
        except ValueError:
            settings[name] = None
        if not isinstance(settings[name], int | float) and value != "null":
            raise InputError(f"--set {name} needs a number, true, false or null, got {value!r}")
    return settings


def balancing_from_options(algorithms: list[str], **options: Any) -> "Balancing":
    """Return the settings of `--algorithm`; InputError if a name is unknown or ambiguous."""
    from evenflow.planning.controller import Balancing
    from evenflow.planning.controller.config import CHOICES, OFF, PLANNER_SETTINGS

    chosen: dict[str, Any] = {}
    for text in algorithms:
        level, _, name = text.rpartition("=")
        levels = [each for each in PLANNER_SETTINGS if name in CHOICES[each]]
        if name == OFF and not level:
            chosen |= dict.fromkeys(PLANNER_SETTINGS, OFF)
        elif level in levels or (not level and len(levels) == 1):
            chosen[level or levels[0]] = name
        elif not level and levels:
            choices = " or ".join(f"{each}={name}" for each in levels)
            raise InputError(f"--algorithm {name} is ambiguous; write {choices}")
        else:
            known = "; ".join(f"{each}: {', '.join(CHOICES[each])}" for each in PLANNER_SETTINGS)
            raise InputError(f"--algorithm: unknown {text!r}; {known}")
    if chosen.get("keys") == OFF:
        chosen["promote"] = False
    return Balancing(**chosen, **options)


def mean_metrics(metrics: "Sequence[BalanceMetrics]") -> dict[str, float]:
    """Return the means over all batches with load, and the worst imbalance."""
    import numpy as np

    busy = [each for each in metrics if each.mean_load > 0] or list(metrics)
    return {
        "mean_imbalance": float(np.mean([each.imbalance for each in busy])),
        "worst_imbalance": float(np.max([each.imbalance for each in busy])),
        "busiest_worker_seconds": float(np.mean([each.max_load for each in busy])),
        "mean_worker_seconds": float(np.mean([each.mean_load for each in busy])),
        "shipped_bytes": float(np.mean([each.shipped_bytes for each in busy])),
    }


def _move_totals(decisions: "Sequence[Decision]") -> dict[str, float]:
    changes = [decision for decision in decisions if decision.plan is not None]
    return {
        "plans": len(changes),
        "moves": sum(len(decision.moves) for decision in changes),
        "moved_bytes": sum(decision.moved_bytes for decision in changes),
    }


def _decision_to_json(decision: "Decision") -> dict[str, Any]:
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


def _scenario_to_json(predicted: "ScenarioResult", scenario: "Scenario") -> dict[str, Any]:
    return {
        "asked": {
            "add": scenario.added_workers,
            "drop": sorted(scenario.dropped_workers),
            "rate": scenario.rate_factor,
            "pins": dict(scenario.pins),
        },
        "workers": len(predicted.plan.active),
        "before": asdict(predicted.before),
        "after": asdict(predicted.after),
        "moves": len(predicted.moves),
        "moved_bytes": predicted.moved_bytes,
        "message": predicted.message,
        "moved_queries": {
            move.query: move.after for move in predicted.moves if move.key_hash is None
        },
    }


def _parse_pin(text: str) -> tuple[str, int]:
    name, _, worker = text.rpartition("=")
    if not name or not worker.isdecimal():
        raise InputError(f"--pin must be QUERY=WORKER, got {text!r}")
    return name, int(worker)
