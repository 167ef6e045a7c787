"""Attacks without end beside innocent queries: what grows?

    python -m benchmarks.attacks.soak [--minutes 60] [--quiet] [--save FILE.json]

A file of rows a batch, one attack after the other from the table of `inside`, and a process that
attacks over HTTP. Memory, threads and open files of the driver, the JVM and Spark's Python
processes, and the files of the checkpoint are sampled every 15 s. Slopes are those of Theil and
Sen over the second half: the growth of an hour, with an interval of 95 % as if samples were
independent. In the end the results of the innocent queries must equal Spark's batch SQL. With
`--quiet` nobody attacks: batches follow each other, which shows what a run itself keeps.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from benchmarks.attacks.inside import Outcome, attacks, run_attack
from benchmarks.attacks.world import Attack, World
from benchmarks.process_stats import allocated, process_totals

KINDS = {"SQL", "operator", "isolated operator", "row", "file"}
QUIET = Attack("none", "none", lambda _: "nothing")
SAMPLE_SECONDS = 15.0


def sample(world: World, began: float) -> dict[str, float]:
    """Return what could grow, now."""
    files = size = 0
    for folder, _, names in os.walk(world.folder / "checkpoint"):
        for name in names:
            try:
                size += (Path(folder) / name).stat().st_size
            except FileNotFoundError:
                continue
            files += 1
    found = {"seconds": time.monotonic() - began, "batches": world.run.committed}
    return {
        **found,
        **process_totals(),
        **allocated(),
        "jvm_heap_mb": heap_after_collection(world) / 1e6,
        "files": files,
        "checkpoint_mb": size / 1e6,
    }


def heap_after_collection(world: World) -> float:
    """Return the bytes of the JVM's heap that are in use after a garbage collection."""
    jvm: Any = world.spark.sparkContext._jvm
    java = jvm.java
    java.lang.System.gc()
    memory = java.lang.management.ManagementFactory.getMemoryMXBean()
    return float(memory.getHeapMemoryUsage().getUsed())


def attack_over_http(url: str) -> subprocess.Popen[bytes]:
    """Start a process that makes all attacks over HTTP, again and again."""
    code = (
        "import sys, time\nfrom benchmarks.attacks.outside import HTTP_ATTACKS, run_attacks\n"
        "while True:\n    run_attacks(HTTP_ATTACKS, sys.argv[1])\n    time.sleep(5)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def slopes(samples: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the growth per hour over the second half of the samples, with an interval."""
    half = samples[len(samples) // 2 :]
    hours = np.array([s["seconds"] for s in half]) / 3600
    found = {}
    for name in half[0]:
        if name == "seconds":
            continue
        values = np.array([s[name] for s in half], float)
        slope, _, low, high = theilslopes(values, hours)
        found[name] = {
            "first": round(samples[0][name], 1), "median": round(float(np.median(values)), 1),
            "last": round(samples[-1][name], 1), "per_hour": round(slope, 1),
            "low": round(low, 1), "high": round(high, 1),
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack for a long time; tell what grows.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    samples: list[dict[str, float]] = []
    outcomes: dict[str, int] = {}
    slowest: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name), trigger="2 seconds", keep="100 batches")
        world.batches(2)
        began = time.monotonic()
        clients = [] if options.quiet else [attack_over_http(world.server.url)]
        chance = random.Random(1)  # noqa: S311
        every = [QUIET] if options.quiet else list(attacks(KINDS))
        for attack in itertools.chain.from_iterable(
            chance.sample(every, len(every)) for _ in itertools.count()
        ):
            outcome: Outcome = run_attack(world, attack, np.inf)
            key = f"{outcome.kind}: {outcome.outcome.partition(':')[0]}"
            outcomes[key] = outcomes.get(key, 0) + 1
            slowest.append(outcome.slowest_seconds)
            if attack is not QUIET:
                print(outcome, file=sys.stderr, flush=True)
            if not samples or time.monotonic() - began > samples[-1]["seconds"] + SAMPLE_SECONDS:
                samples.append(sample(world, began))
                world.read_results()
                print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
            if time.monotonic() - began > 60 * options.minutes:
                break
        for client in clients:
            client.kill()
            client.wait()
        differences = world.differences()
        left = world.set_aside()
        world.close()
    report = {
        "minutes": options.minutes,
        "attacks": len(slowest),
        "outcomes": dict(sorted(outcomes.items())),
        "slowest_batch_seconds": {
            "median": float(np.median(slowest)), "p95": float(np.percentile(slowest, 95)),
            "max": max(slowest),
        },
        "innocent": differences,
        "left_out": left,
        "growth": slopes(samples),
    }  # fmt: skip
    print(json.dumps(report, indent=1))
    if options.save:
        options.save.write_text(json.dumps({**report, "samples": samples}, indent=1))
    equal = all(d["rows"] and not d["missing"] and not d["extra"] for d in differences.values())
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
