"""The papers' tables and figures, each a grid of points that any number of machines can measure."""

from evenflow.errors import InputError
from evenflow.experiments import (
    borealis_static,
    herding_arrival,
    herding_churn,
    herding_rates,
    herding_theory,
    herding_week,
    mixed_beta,
    mixed_discretise,
    mixed_fluctuation,
    mixed_sizes,
    mixed_skew,
    mixed_table,
    mixed_tolerance,
    mixed_workers,
)
from evenflow.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for experiment in (
        *borealis_static.EXPERIMENTS,
        *herding_theory.EXPERIMENTS,
        *herding_arrival.EXPERIMENTS,
        *herding_churn.EXPERIMENTS,
        *herding_rates.EXPERIMENTS,
        *herding_week.EXPERIMENTS,
        *sorted(
            (
                *mixed_skew.EXPERIMENTS,
                *mixed_workers.EXPERIMENTS,
                *mixed_tolerance.EXPERIMENTS,
                *mixed_sizes.EXPERIMENTS,
                *mixed_discretise.EXPERIMENTS,
                *mixed_fluctuation.EXPERIMENTS,
                *mixed_table.EXPERIMENTS,
                *mixed_beta.EXPERIMENTS,
            ),
            key=lambda experiment: int(experiment.id.removeprefix("mixed-fig")),
        ),
    )
}


def find(ids: list[str]) -> list[Experiment]:
    """Return the experiments named, in the papers' order; `all`, or a paper's name for all of it.

    >>> [experiment.id for experiment in find(["borealis-fig4", "borealis-fig3"])]
    ['borealis-fig3', 'borealis-fig4']
    """
    chosen: set[str] = set()
    for name in ids:
        matching = {
            known for known in EXPERIMENTS if name in {"all", known, known.partition("-")[0]}
        }
        if not matching:
            raise InputError(
                f"unknown experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all"
            )
        chosen |= matching
    return [experiment for id_, experiment in EXPERIMENTS.items() if id_ in chosen]
