"""The key planners by name; each is a function (keys, config, rng) -> KeyPlan."""

from collections.abc import Mapping

import numpy as np

from evenflow.model import KeyLoads
from evenflow.planning.keys.baselines import hash_only, readj, readj_pairs, simple
from evenflow.planning.keys.choices import d_choices, pkg, w_choices
from evenflow.planning.keys.compact import compact
from evenflow.planning.keys.cover import cover
from evenflow.planning.keys.exact import exact
from evenflow.planning.keys.mixed import llfd, minmig, mintable, mixed, mixedbf
from evenflow.planning.keys.problem import KeyConfig, KeyPlanner

ALGORITHMS: Mapping[str, KeyPlanner] = {
    "hash": hash_only,
    "simple": simple,
    "llfd": llfd,
    "mintable": mintable,
    "minmig": minmig,
    "mixed": mixed,
    "mixedbf": mixedbf,
    "compact": compact,
    "readj": readj,
    "readj-pairs": readj_pairs,
    "pkg": pkg,
    "d-choices": d_choices,
    "w-choices": w_choices,
    "cover": cover,
    "exact": exact,
}

CHOICE_PLANNERS = ("pkg", "d-choices", "w-choices")
"""Planners that split keys by a rule of their own; for queries that divide rows without copies."""


def warm_up(algorithm: str) -> None:
    """Compile an algorithm by planning two tiny cases, one of them with hardly a table."""
    count, workers = 60, 3
    key = np.arange(count)
    cost = 1000.0 / (key + 1)
    keys = KeyLoads.from_arrays(cost, cost[::-1], (key % 7) % workers, (key % 5) % workers, workers)
    for max_table in (count, 2):
        ALGORITHMS[algorithm](keys, KeyConfig(max_table=max_table), np.random.default_rng(0))
