"""A flow in this process whose workers report a fixed price per row and pair as their CPU time.

Router, workers, measuring and the controller are the real ones; only the clock is not, so that a
closed loop is the same on every machine.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
from tests.support.local_runtime import Local

from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.protocol.report import Report

ROW_SECONDS, PAIR_SECONDS = 2e-5, 2e-6


class PricedFlow(Local):
    """A flow that balances itself by these prices; `busiest` is noted by whoever plays it."""

    busiest: list[float]

    def balance(self, config: Balancing) -> Balancer:
        """Let the controller decide; prices are far below a batch's real time, so without floor."""
        balancer = Balancer(replace(config, min_excess=0.0, combine=False))
        self.attend(balancer)
        return balancer

    def work(self, number: int, rows: Mapping[str, pa.Table], attempt: int = 0) -> list[Report]:
        """Run a batch, and price it."""
        reports = super().work(number, rows, attempt)
        for report in reports:
            for stats in report.query_stats.values():
                stats.cpu_seconds = ROW_SECONDS * stats.work_rows + PAIR_SECONDS * stats.produced
        return reports


def worker_seconds(reports: list[Report]) -> Floats:
    """Return the priced load of each worker in a batch."""
    return np.array([sum(s.cpu_seconds for s in r.query_stats.values()) for r in reports])
