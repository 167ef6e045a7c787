"""Fuzzes our SQL against Spark: `python -m benchmarks.fuzz --minutes N [--seed S] [--kinds K ...]`.

Prints each new class of differences to stderr as it is found, shrunk, and the counts of each seed;
at the end all counts as JSON.
"""

import argparse
import json
import sys
import time
from collections import Counter

from tests.support import fuzz
from tests.support.differential import fuzz_session
from tests.support.fuzz_findings import find_known
from tests.support.spark_harness import session

KINDS = ["expressions", "calls", "queries"]


def main(minutes: float, seed: int, kinds: list[str]) -> None:
    spark = fuzz_session(session("local[2]"))
    spark.sparkContext.setLogLevel("OFF")  # failures are answers here
    end = time.monotonic() + 60 * minutes
    counts: Counter[str] = Counter()
    known: Counter[str] = Counter()
    new: Counter[str] = Counter()
    first = seed
    while time.monotonic() < end:
        for kind in kinds:
            if kind == "expressions":
                found = fuzz.expressions(spark, seed, 400, failing_rows=3)
            elif kind == "calls":
                found = fuzz.calls(spark, seed, 800, failing_rows=3)
            else:
                found = fuzz.queries(spark, seed, 40, is_known=lambda d: find_known(d) is not None)
            counts[kind] += found.generated
            counts[f"{kind} compared"] += found.compared
            for difference in found.differences:
                finding = find_known(difference)
                if finding is not None:
                    known[finding.reason] += 1
                    continue
                name = f"{difference.category}: {difference.shape}"
                if name not in new:
                    print(f"seed {seed}: {fuzz.describe(difference)}\n", file=sys.stderr)
                new[name] += 1
        seed += 1
        print(f"until seed {seed}: {dict(counts)}", file=sys.stderr)
    print(json.dumps({"seeds": [first, seed], **counts, "known": known, "new": new}))
    sys.exit(1 if new else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    main(options.minutes, options.seed, options.kinds)
