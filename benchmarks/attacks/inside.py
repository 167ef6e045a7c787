"""Attacks on a run, one after the other, beside innocent queries on real Spark.

    python -m benchmarks.attacks.inside [--kinds SQL,operator,row,file,HTTP,specification]
        [--attacks N] [--minutes N] [--save FILE.json]
    python -m benchmarks.attacks.inside --table FILE.json ...

SQL of the hostile corpus, evil operators in the worker's process and isolated, rows with wrong
times and values, damaged files, requests to the service, hostile specifications. While an attack
lasts, and for two batches at least, innocent queries go on. The table has its outcome and their
slowest batch, against the bound of twice the median of quiet batches plus a second. In the end
their results must equal Spark's batch SQL. `--table` prints saved runs as one table.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from tests.support import evil_operators
from tests.support.dear_sql import DEAR, DEEP
from tests.support.hostile_rows import hostile_rows
from tests.support.hostile_sql import CASES, SCHEMA
from tests.support.spark_harness import SECOND

from benchmarks.attacks.outside import HTTP_ATTACKS
from benchmarks.attacks.specifications import FILE_ATTACKS, OutsideAttack
from benchmarks.attacks.world import Attack, World
from evenflow.errors import InputError
from evenflow.sql import Operator

QUIET_BATCHES = 10


@dataclass(frozen=True)
class Outcome:
    """What an attack led to, the slowest batch of others meanwhile, and whether that is bounded."""

    attack: str
    kind: str
    outcome: str
    repelled: bool
    slowest_seconds: float
    within_bound: bool


def attacks(kinds: set[str]) -> Iterator[Attack]:
    """Yield the attacks of some kinds, mixed."""
    every = (
        sql_attacks(),
        operator_attacks(isolate=False),
        operator_attacks(isolate=True),
        input_attacks(),
        outside_attacks("HTTP", HTTP_ATTACKS),
        outside_attacks("specification", FILE_ATTACKS),
    )
    mixed = itertools.chain.from_iterable(itertools.zip_longest(*every))
    return (attack for attack in mixed if attack is not None and attack.kind in kinds)


def sql_attacks() -> Iterator[Attack]:
    accepted = [case for case in CASES if case.accepted]
    refused = [case for case in CASES if not case.accepted]
    mixed = itertools.zip_longest(accepted[::2], (*DEEP, *DEAR[::2]), refused[::6])
    for case in filter(None, itertools.chain.from_iterable(mixed)):

        def act(world: World, sql: str = case.sql, template: bool = case.is_template) -> str:
            host = world.run.submit_template if template else world.run.submit
            try:
                host("hostile", sql)
            except InputError:
                return "refused"
            return ""

        may_run = case.accepted and case not in DEAR
        yield Attack(case.name, "SQL", act, () if may_run else ("refused",))


def operator_attacks(*, isolate: bool) -> Iterator[Attack]:
    kinds = evil_operators
    calm = (*kinds.FAILING, *kinds.HARMLESS, *kinds.HANGING)
    chosen = (*kinds.DEADLY, *kinds.STUCK, *calm[::3]) if isolate else calm
    for kind in chosen:

        def act(world: World, kind: type[Operator] = kind) -> str:
            world.run.submit_operator("hostile", kind, "trades", isolate=isolate)
            return ""

        yield Attack(kind.__name__, "isolated operator" if isolate else "operator", act)


def input_attacks() -> Iterator[Attack]:
    day, row = 86_400 * SECOND, hostile_rows(1, 1)

    def at(time_us: int | None) -> pa.Table:
        times = pa.array([time_us], pa.int64()).cast(SCHEMA.field("ts").type)
        return row.set_column(0, "ts", times)

    note, small = (SCHEMA.get_field_index(name) for name in ("note", "small"))
    wide = pa.array(["x" * 8_000_000])
    rows = {
        "row two days ahead": at(int(time.time()) * SECOND + 2 * day),
        "row of 2199": at(7_226_582_400 * SECOND),
        "row of 1899": at(-2_210_000_000 * SECOND),
        "row of year 9999": at(253_402_300_000 * SECOND),
        "first time of all": at(-(1 << 63) + 1),
        "last time of all": at((1 << 63) - 1),
        "row without a time": at(None),
        "text of 8 MB without a time": at(None).set_column(note, "note", wide),
        "100,000 rows without a time": pa.concat_tables([at(None)] * 100).take([0] * 100_000),
    }
    for name, table in rows.items():
        send = partial(World.send_bad, rows=table, outcome="set aside")
        yield Attack(name, "row", send, ("set aside",))
    tables = {
        "file of other types": row.set_column(small, "small", pa.array(["many"])),
        "file with a list for a number": row.set_column(small, "small", pa.array([[1]])),
        "file with a text for a struct": row.set_column(
            SCHEMA.get_field_index("pair"), "pair", pa.array(["x"])
        ),
    }
    for name, table in tables.items():
        send = partial(World.send_bad, rows=table, outcome="left out")
        yield Attack(name, "file", send, ("left out",))
    contents = {
        "file of garbage": os.urandom(1000),
        "empty file": b"",
        "cut file": b"PAR1x",
        "file that ends as Parquet does": b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1",
        "text file": b"ts,symbol\n1,a\n",
    }
    for name, content in contents.items():
        send = partial(World.send_bad, content=content, outcome="left out")
        yield Attack(name, "file", send, ("left out",))


def outside_attacks(kind: str, found: tuple[OutsideAttack, ...]) -> Iterator[Attack]:
    """Requests to the service of the run, and specifications to `evenflow validate`."""
    for attack in found:

        def act(world: World, attack: OutsideAttack = attack) -> str:
            if kind == "HTTP":
                return attack.act(world.server.url)
            with tempfile.TemporaryDirectory() as folder:
                return attack.act(folder)

        yield Attack(attack.name, kind, act, attack.expected)


def run_attack(world: World, attack: Attack, bound: float) -> Outcome:
    """Attack, let two batches pass and more until it is over, and clean up."""
    first, done = world.run.committed, []
    thread = threading.Thread(target=lambda: done.append(attempt(partial(attack.act, world))))
    thread.start()
    while thread.is_alive():
        world.batches(1)
    thread.join()
    world.batches(2)  # a query that was submitted runs in the second at the latest
    seconds = world.slowest_since(first)
    outcome = done[0] or world.outcome()
    world.cancel_hostile()
    repelled = not attack.expected or outcome in attack.expected
    return Outcome(attack.name, attack.kind, outcome, repelled, round(seconds, 2), seconds <= bound)


def attempt(act: Callable[[], str]) -> str:
    """Return the outcome of an attack, or how the program that attacks failed."""
    try:
        return act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def summarise(outcomes: list[Outcome], quiet: list[float], left: dict[str, object]) -> str:
    """Return the table and the verdicts as Markdown."""
    lines = [
        "| attack | kind | outcome | slowest batch, s | bound kept |",
        "|---|---|---|---:|---|",
    ]
    for o in outcomes:
        outcome = o.outcome.replace("|", "\\|").replace("\n", " ")[:80].strip()
        kept = "yes" if o.within_bound else "no"
        told = outcome if o.repelled else f"**{outcome}**"
        lines.append(f"| {o.attack} | {o.kind} | {told} | {o.slowest_seconds} | {kept} |")
    slow = [o for o in outcomes if not o.within_bound]
    lines += [
        "",
        f"{len(outcomes)} attacks, {sum(not o.repelled for o in outcomes)} not repelled, "
        f"{len(slow)} beyond the bound of {bound_of(quiet):.2f} s "
        f"(median of {len(quiet)} quiet batches {statistics.median(quiet):.2f} s).",
        json.dumps(left),
    ]
    return "\n".join(lines)


def bound_of(quiet: list[float]) -> float:
    """Return how long a batch of others may take."""
    return 2 * statistics.median(quiet) + 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack a run beside innocent queries.")
    parser.add_argument("--kinds", default="SQL,operator,isolated operator,row,file,HTTP,"
                                           "specification")  # fmt: skip
    parser.add_argument("--attacks", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="attack no longer")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--table", type=Path, nargs="+", default=[])
    options = parser.parse_args()
    for path in options.table:
        saved = json.loads(path.read_text())
        found = [Outcome(**outcome) for outcome in saved.pop("outcomes")]
        print(summarise(found, saved.pop("quiet_seconds"), saved), end="\n\n")
    if options.table:
        return
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        world.batches(4)  # cold
        quiet = [world.batches(1) for _ in range(QUIET_BATCHES)]
        chosen = attacks(set(options.kinds.split(",")))
        end = time.monotonic() + 60 * options.minutes
        for attack in itertools.islice(chosen, options.attacks):
            outcomes.append(run_attack(world, attack, bound_of(quiet)))
            print(outcomes[-1], file=sys.stderr, flush=True)
            if time.monotonic() > end:
                break
        differences = world.differences()
        left: dict[str, object] = {"left_out": world.set_aside(), "innocent": differences}
        world.close()
    print(summarise(outcomes, quiet, left))
    if options.save:
        saved = {"outcomes": [asdict(o) for o in outcomes], "quiet_seconds": quiet, **left}
        options.save.write_text(json.dumps(saved, indent=1))
    equal = all(d["rows"] and not d["missing"] and not d["extra"] for d in differences.values())
    sys.exit(0 if equal and all(o.repelled for o in outcomes) else 1)


if __name__ == "__main__":
    main()
