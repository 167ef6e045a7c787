"""The papers' tables and figures, each a grid of points that any number of machines can measure."""

from evenflow.errors import InputError
from evenflow.experiments import (
    borealis_dynamic,
    borealis_intro,
    borealis_robust,
    borealis_static,
    herding_arrival,
    herding_churn,
    herding_rates,
    herding_theory,
    herding_week,
    mixed_beta,
    mixed_change,
    mixed_discretise,
    mixed_fluctuation,
    mixed_keys,
    mixed_q5,
    mixed_real,
    mixed_scale_out,
    mixed_skew,
    mixed_table,
    mixed_tolerance,
    mixed_workers,
)
from evenflow.experiments.experiment import Experiment

PARTS = (
    *(borealis_intro, borealis_static, borealis_dynamic, borealis_robust),
    *(herding_theory, herding_arrival, herding_churn, herding_rates, herding_week),
    *(mixed_skew, mixed_workers, mixed_tolerance, mixed_keys, mixed_discretise),
    *(mixed_fluctuation, mixed_change, mixed_real, mixed_scale_out, mixed_q5),
    *(mixed_table, mixed_beta),
)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment for part in PARTS for experiment in part.EXPERIMENTS
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
