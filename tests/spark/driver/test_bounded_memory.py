"""A driver that has run for long remembers no more than one that has run for a while."""

import gc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import shifted, trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.model.retention import Retention
from evenflow.planning.controller import Balancing
from evenflow.spark.driver import alert_book, balancer, committer
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.submission import Submission

BAD = "SELECT ts, CAST(symbol AS INT) AS x FROM trades"


def own_objects() -> Counter[str]:
    """Count the objects of our types."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(kind.__name__ for kind in kinds if str(kind.__module__).startswith("evenflow."))


def test_many_batches_with_queries_that_come_fail_and_go_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer, "MAX_BATCHES_IN_MEMORY", 4)
    monkeypatch.setattr(committer, "_MAX_COMPLETED_BATCHES", 4)
    monkeypatch.setattr(alert_book, "MAX_RESOLVED", 4)
    keep = Retention.parse("6 batches")
    local = Local(tmp_path, STREAMS, SUBMISSIONS[1:2], workers=1, keep=keep)
    local.attend(Balancer(Balancing()))
    local.committer.balancer.open(local.committer.checkpoint.ledger)
    rows = trades(np.random.default_rng(1), 20, span_s=4, late_s=3)
    counts = []
    for number in range(48):
        if number % 4 == 0:
            local.committer.commands.submit(Submission("query", f"bad{number}", BAD))
        if number % 4 == 3:
            local.committer.commands.submit(CancelQuery(f"bad{number - 3}"))
        local.batch({"trades": shifted(rows, 4 * number)})
        if number in (23, 47):
            counts.append(own_objects())
    grown = {name: more for name, more in (counts[1] - counts[0]).items() if more > 4}
    assert not grown, "6 queries came and went in 24 batches"
