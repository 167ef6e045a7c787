"""A query that shares its workers with evil ones, and what it must answer all the same."""

from tests.support.local_runtime import Local
from tests.support.spark_harness import trade_batches
from tests.support.submissions import last_row

from evenflow.spark.driver.submission import Submission

INNOCENT = Submission(
    "query",
    "innocent",
    "SELECT window.start AS s, symbol, count(*) AS n FROM trades "
    "GROUP BY window(ts, '10 seconds'), symbol",
    ("symbol",),
)
ROWS = trade_batches(3)


def play(local: Local) -> None:
    """Run all rows through a flow, to the last window."""
    for rows in ROWS:
        local.batch({"trades": rows})
    local.batch({"trades": last_row()})
    local.rest()
