"""Kills a run that moves and splits keys twenty times: `python -m benchmarks.kills [kills]`.

Each time the driver, its JVM and all Python processes get SIGKILL within a second after a commit;
then the run continues from its checkpoint. At the end the rows of every query must equal those of
Spark's batch SQL.
"""

import json
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.support.kill_driver import (
    LOCAL,
    check_rows,
    kill_at_random,
    start_program,
    wait_program,
    write_rows,
)


def main(kills: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, batches = Path(name), []
        write_rows(folder, batches=40)
        start = partial(start_program, folder, LOCAL, EVENFLOW_MOVING="80")
        for batch in kill_at_random(start, folder, kills, random.Random(7), moving=True):  # noqa: S311
            batches.append(batch)
            print(f"kill {len(batches)} after batch {batch}", file=sys.stderr)
        if wait_program(start()) != 0:
            sys.exit((folder / "log").read_text()[-2000:])
        counts = {query: len(rows) for query, rows in check_rows(folder)["results"].items()}
    print(json.dumps({"kills": kills, "batch_at_kill": batches, "rows_equal": counts}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
