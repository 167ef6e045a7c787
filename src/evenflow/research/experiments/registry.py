"""All experiments, in the order of the papers."""

from evenflow.errors import InputError
from evenflow.research.experiment import Experiment
from evenflow.research.experiments.borealis import correlation, dynamic, sensitivity, static
from evenflow.research.experiments.herding import churn, placement, source_rates, theory, week_trace
from evenflow.research.experiments.mixed import (
    discretisation,
    fluctuation,
    hash_skew,
    key_count,
    live_fluctuation,
    live_q5,
    live_scale_out,
    live_tolerance,
    table_bound,
    tolerance,
    window_and_beta,
    worker_count,
)

EXPERIMENT_MODULES = (
    *(correlation, static, dynamic, sensitivity),
    *(theory, placement, churn, source_rates, week_trace),
    *(hash_skew, worker_count, tolerance, key_count, discretisation),
    *(fluctuation, live_fluctuation, live_tolerance, live_scale_out, live_q5),
    *(table_bound, window_and_beta),
)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment for module in EXPERIMENT_MODULES for experiment in module.EXPERIMENTS
}


def find_experiments(ids: list[str]) -> list[Experiment]:
    """Return the experiments by id, by paper (`borealis`) or `all`, in the order of the papers.

    >>> [experiment.id for experiment in find_experiments(["borealis-fig4", "borealis-fig3"])]
    ['borealis-fig3', 'borealis-fig4']
    """
    chosen: set[str] = set()
    for name in ids:
        matching = {
            known for known in EXPERIMENTS if name in {"all", known, known.partition("-")[0]}
        }
        if not matching:
            raise InputError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}, all")
        chosen |= matching
    return [experiment for id_, experiment in EXPERIMENTS.items() if id_ in chosen]
