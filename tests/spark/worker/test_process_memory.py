"""An operator that takes too much memory fails, and nobody else does."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path

import numpy as np
from tests.spark.worker.test_query_guard import INNOCENT, operator
from tests.support.evil_operators import TakesMemory
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS

from evenflow.spark.worker.process_memory import limit_process_memory

assert limit_process_memory(3 << 30) == 3 << 30
assert limit_process_memory(4 << 30) == 3 << 30, "a lower limit stays"
local = Local(Path(sys.argv[1]), STREAMS, [INNOCENT, operator(TakesMemory)], workers=1)
local.batch({"trades": trades(np.random.default_rng(0), 20)})
print(local.committer.checkpoint.head().quarantined)
"""


def test_too_much_memory_fails_only_the_operator_that_takes_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "MemoryError" in done.stdout
    assert list(eval(done.stdout)) == ["evil@2"]  # noqa: S307 - our own output
