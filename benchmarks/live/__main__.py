"""What live balancing brings on Spark: `python -m benchmarks.live [part ...]`.

spread      largest over mean load of a keyed query: hash only, balanced, before and after a shift;
            what moves cost; whether all results are those of Spark's batch SQL
throughput  a keyed count whose rows cost time: hash only, balanced by the default bound and by half
            of it, two choices (PKG), ideal
cpu         a keyed self-join bound by CPU, as many workers as cores: hash only and balanced
bursts      40 whole queries that burst in and out of phase: balanced, largest load first, connected
arrivals    5,000 queries of 200 types that come and go: bytes shipped against dealing them out

Keys that begin with `goal` say whether the row meets what was asked for.
"""

from benchmarks.harness import main
from benchmarks.live.arrivals import arrivals
from benchmarks.live.bursts import bursts
from benchmarks.live.cpu import cpu
from benchmarks.live.spread import spread
from benchmarks.live.throughput import throughput

if __name__ == "__main__":
    main({f.__name__: f for f in (spread, throughput, cpu, bursts, arrivals)})
