"""Twenty real kills of a run that moves state all the time: `python -m benchmarks.kills [kills]`.

The driver, its JVM and all Python processes get SIGKILL at random moments, each time within a
second after one more batch was committed; after each the run goes on from its checkpoint. At the
end every query's rows must be those of Spark's batch SQL.
"""

import json
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.support.kill_driver import LOCAL, begin, check, end, kill_at_random, lay


def main(kills: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, batches = Path(name), []
        lay(folder, batches=40)
        again = partial(begin, folder, LOCAL, EVENFLOW_MOVING="80")
        for batch in kill_at_random(again, folder, kills, random.Random(7)):  # noqa: S311
            batches.append(batch)
            print(f"kill {len(batches)}: the ledger stands at batch {batch}", file=sys.stderr)
        if end(again()) != 0:
            sys.exit((folder / "log").read_text()[-2000:])
        counts = {query: len(rows) for query, rows in check(folder)["found"].items()}
    print(json.dumps({"kills": kills, "batch_at_kill": batches, "rows_equal": counts}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
