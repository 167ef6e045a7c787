"""Twenty real kills of a run that moves state all the time: `python -m benchmarks.kills [kills]`.

The driver, its JVM and all Python processes get SIGKILL at random moments, each time within a
second after one more batch was committed; after each the run goes on from its checkpoint. At the
end every query's rows must be those of Spark's batch SQL.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.programs.test_kills import ROOT, check, lay


def begin(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.crashing", str(folder), "local[2,4]"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EVENFLOW_MOVING": "80"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def committed(folder: Path) -> int:
    """Return the batch at which the ledger stands."""
    ledger = folder / "checkpoint" / "ledger"
    return max((int(path.name) for path in ledger.glob("0*")), default=0)


def main(kills: int) -> None:
    chance = random.Random(7)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay(folder, batches=40)
        killed, batches = 0, []
        while killed < kills:
            process, stood = begin(folder), committed(folder)
            while committed(folder) == stood and process.poll() is None:
                time.sleep(0.05)
            time.sleep(chance.random())
            if process.poll() is not None:
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
            batches.append(committed(folder))
            print(f"kill {killed}: the ledger stands at batch {batches[-1]}", file=sys.stderr)
        process = begin(folder)
        if process.wait() != 0:
            sys.exit((folder / "log").read_text()[-2000:])
        counts = check(folder)
    print(json.dumps({"kills": killed, "batch_at_kill": batches, "rows_equal": counts}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
