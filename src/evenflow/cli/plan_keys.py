"""`evenflow plan keys`: which key of a heavy query goes to which worker."""

import contextlib
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.output import (
    print_json,
    print_loads,
    print_result,
    quiet_stdout,
    verdicts_to_json,
)
from evenflow.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.model import KeyLoads
    from evenflow.planning.keys import KeyConfig, KeyPlan


class KeyAlgorithm(StrEnum):
    """The planners, as `planning.keys.ALGORITHMS` names them (spelt out to keep --help quick)."""

    HASH = "hash"
    SIMPLE = "simple"
    LLFD = "llfd"
    MINTABLE = "mintable"
    MINMIG = "minmig"
    MIXED = "mixed"
    MIXEDBF = "mixedbf"
    COMPACT = "compact"
    READJ = "readj"
    PKG = "pkg"
    COVER = "cover"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """What was read: the key column, its loads, and how many keys come from STATS."""

    names: "pa.Array"
    loads: "KeyLoads"
    listed_count: int


def plan_keys_command(
    stats: Annotated[Path, typer.Argument(help="Parquet or CSV with key, cost, state.")],
    workers: Annotated[int, typer.Option(min=1, max=100_000, help="Number of workers.")],
    algorithm: Annotated[KeyAlgorithm, typer.Option(help="Planner.")] = KeyAlgorithm.MIXED,
    max_imbalance: Annotated[
        float, typer.Option(help="Load above the mean that a worker may carry.")
    ] = 0.08,
    max_table: Annotated[int, typer.Option(help="Entries the routing table may have.")] = 3000,
    beta: Annotated[float, typer.Option(help="Weight of cost against state.")] = 1.5,
    current: Annotated[
        Path | None, typer.Option(help="Routing table in force: key, worker. None: hash only.")
    ] = None,
    table_out: Annotated[Path | None, typer.Option(help="Write the new routing table.")] = None,
    assignment_out: Annotated[
        Path | None, typer.Option(help="Write key, before, after for every key.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of planners that draw lots.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plan which key goes to which worker, and say what that costs and gains."""
    import numpy as np

    from evenflow.cli.table_files import check_csv_keys, check_writable, write_tables
    from evenflow.planning.keys import ALGORITHMS, KeyConfig, warm_up

    config = KeyConfig(max_imbalance, max_table, beta)
    check_writable(table_out, assignment_out, inputs=(stats, current))
    problem = read_key_file(stats, current, workers)
    check_csv_keys(problem.names, table_out, assignment_out)
    planner = ALGORITHMS[algorithm.value]
    with quiet_stdout():
        warm_up(algorithm.value)
        start = time.perf_counter()
        plan = planner(problem.loads, config, np.random.default_rng(seed))
        seconds = time.perf_counter() - start
    result = plan_to_json(algorithm.value, problem, config, plan, seconds)
    write_tables(output_tables(problem, plan, table_out, assignment_out))
    if json:
        print_json(result)
    else:
        print_key_plan(result, config)


def read_key_file(stats: Path, current: Path | None, workers: int) -> KeyFile:
    """Read and check STATS and TABLE; keys that only the table knows are idle."""
    import numpy as np
    import pyarrow as pa

    from evenflow.cli.table_files import check_not_negative, key_column, number_column, read_table
    from evenflow.model import KeyLoads, RoutingTable, hash_keys

    table = read_table(stats, ("key", "cost", "state"))
    names = key_column(table["key"], stats)
    cost, state = (
        check_not_negative(number_column(table, column, stats), column, stats)
        for column in ("cost", "state")
    )
    hashes = hash_keys(names)
    refuse_duplicates(names, hashes, stats)
    listed, routes = len(names), RoutingTable()
    if current is not None:
        entries, entry_hashes, routes = read_routing_table(current, names.type, workers)
        idle = ~np.isin(entry_hashes, hashes)
        names = pa.concat_arrays([names, entries.filter(pa.array(idle))])
        hashes = np.concatenate((hashes, entry_hashes[idle]))
    rest = np.zeros(len(names) - listed)
    loads = KeyLoads(
        np.concatenate((cost.to_numpy(), rest)),
        np.concatenate((state.to_numpy(), rest)),
        RoutingTable().route(hashes, workers),
        routes.route(hashes, workers),
        workers,
        names,
    )
    return KeyFile(names, loads, listed)


def read_routing_table(current: Path, key_type: "pa.DataType", workers: int) -> Any:
    """Read the routing table in force, with keys of the type that STATS has."""
    import pyarrow as pa

    from evenflow.cli.table_files import key_column, read_table, worker_column
    from evenflow.model import RoutingTable, hash_keys

    table = read_table(current, ("key", "worker"), may_be_empty=True)
    entries = key_column(table["key"], current)
    if entries.type != key_type:
        found = entries.type
        with contextlib.suppress(pa.ArrowException):
            entries = entries.cast(key_type)
            if not entries.cast(found).equals(key_column(table["key"], current)):
                entries = entries.cast(found)  # 007 is not 7
        if entries.type != key_type:
            raise InputError(f"{current}: keys are {found}, those of STATS {key_type}")
    owners = worker_column(table, current, workers)
    hashes = hash_keys(entries)
    refuse_duplicates(entries, hashes, current)
    return entries, hashes, RoutingTable.from_entries(hashes, owners.to_numpy())


def refuse_duplicates(names: "pa.Array", hashes: Any, path: Path) -> None:
    """Refuse a file that names a key twice."""
    import numpy as np

    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if len(same):
        one, other = sorted((int(order[same[0]]), int(order[same[0] + 1])))
        if names[one] == names[other] or not (names[one].is_valid or names[other].is_valid):
            raise InputError(f"{path}: key {names[one]} stands in rows {one + 1} and {other + 1}")
        raise InputError(
            f"{path}: keys {names[one]} and {names[other]} have the same hash and travel together; "
            "give their sums as one row"
        )


def plan_to_json(
    algorithm: str, problem: KeyFile, config: "KeyConfig", plan: "KeyPlan", seconds: float
) -> dict[str, Any]:
    """Return the fields of --json."""
    from evenflow.model import imbalance
    from evenflow.planning.keys import feasible
    from evenflow.planning.keys.metrics import max_relative_deviation, moved_state

    keys = problem.loads
    moved, total = moved_state(keys, plan.owner), float(keys.state.sum())
    return {
        "algorithm": algorithm,
        "workers": keys.workers,
        "keys": problem.listed_count,
        "feasible": feasible(keys, config, plan),
        "imbalance_before": max_relative_deviation(keys.worker_loads()),
        "imbalance": max_relative_deviation(plan.loads),
        "max_over_mean": imbalance(plan.loads),
        "table_size": plan.table_size(keys),
        "moved_keys": int((plan.owner != keys.owner).sum()),
        "moved_state": moved,
        "moved_state_fraction": moved / total if total else 0.0,
        "plan_seconds": seconds,
        "loads": plan.loads.tolist(),
        "verdicts": verdicts_to_json(plan.verdicts),
    }


def output_tables(
    problem: KeyFile, plan: "KeyPlan", table_out: Path | None, assignment_out: Path | None
) -> dict[Path, "pa.Table"]:
    """Return the files to write."""
    import pyarrow as pa

    keys, owner = problem.loads, pa.array(plan.owner)
    tables = {}
    if table_out is not None:
        listed = pa.array(plan.owner != keys.home)
        entries = {"key": problem.names, "worker": owner}
        tables[table_out] = pa.table(entries).filter(listed)
    if assignment_out is not None:
        tables[assignment_out] = pa.table(
            {"key": problem.names, "before": pa.array(keys.owner), "after": owner}
        )
    return tables


def print_key_plan(result: dict[str, Any], config: "KeyConfig") -> None:
    """Print the plan for people."""
    from evenflow.model import Verdict

    rows = {
        "keys": f"{result['keys']:,}",
        "workers": f"{result['workers']}",
        "feasible": "yes" if result["feasible"] else "no",
        "imbalance before": f"{result['imbalance_before']:.4f}",
        "imbalance after": f"{result['imbalance']:.4f}",
        "fullest worker / mean": f"{result['max_over_mean']:.4f}",
        "table entries": f"{result['table_size']:,} of {config.max_table:,}",
        "keys moved": f"{result['moved_keys']:,}",
        "state moved": f"{result['moved_state']:,.6g} ({result['moved_state_fraction']:.2%})",
        "planned in": f"{result['plan_seconds'] * 1000:.2f} ms",
    }
    verdicts = [Verdict(**verdict) for verdict in result["verdicts"]]
    print_result(f"plan keys: {result['algorithm']}", rows, verdicts)
    mean = sum(result["loads"]) / result["workers"]
    print_loads(result["loads"], (1 + config.max_imbalance) * mean)
