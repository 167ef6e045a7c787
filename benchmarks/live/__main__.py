"""Results of live balancing on Spark: `python -m benchmarks.live [part ...]`.

spread      largest over mean load of a keyed query: hash only and balanced, before and after a
            shift of the hot keys; the cost of moves; results compared with Spark's batch SQL
throughput  a keyed count with emulated cost per row: hash only, balanced with the default and half
            the tolerance, two choices (PKG), ideal
cpu         a CPU-bound keyed self-join, as many workers as cores: hash only and balanced
split       CPU-bound joins and a template, one key with half of the rows: hash only and split
q5          TPC-H Q5 with skewed foreign keys and emulated cost: hash only and balanced
hot_streams streams with hot keys against all classes of queries, results as batch SQL
idle        a nearly idle system: plans in 200 batches
bursts      40 whole queries that burst in two phases: balanced, largest load first, connected
arrivals    5,000 queries of 200 types that arrive and leave: bytes shipped against round robin

Keys that start with `goal` are true if the row meets its goal.
"""

from benchmarks.harness import run_parts
from benchmarks.live.arrivals import arrivals
from benchmarks.live.bursts import bursts
from benchmarks.live.cpu import cpu
from benchmarks.live.hot_streams import hot_streams
from benchmarks.live.idle import idle
from benchmarks.live.q5 import q5
from benchmarks.live.split import split
from benchmarks.live.spread import spread
from benchmarks.live.throughput import throughput

if __name__ == "__main__":
    parts = (spread, throughput, cpu, split, q5, hot_streams, idle, bursts, arrivals)
    run_parts({f.__name__: f for f in parts})
