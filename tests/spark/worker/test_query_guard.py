"""Everything that a query computes runs in its guard: it can fail itself, nobody else."""

from pathlib import Path
from typing import Any

import pytest
from tests.support import evil_operators
from tests.support.innocent import INNOCENT, ROWS, play
from tests.support.local_runtime import Local
from tests.support.submissions import STREAMS, last_row

from evenflow.model import Plan
from evenflow.spark.driver.pending_state import CancelQuery, ResumeQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.worker.inbox import Inbox
from evenflow.spark.worker.query_work import QueryWork
from evenflow.sql import Operator, operator_path
from evenflow.sql.tasks.operator import OperatorTask


def operator(kind: type[Operator], *, publish: bool = False) -> Submission:
    return Submission("operator", "evil", operator_path(kind), None, publish, None, ("trades",))


@pytest.mark.parametrize("kind", evil_operators.FAILING + evil_operators.HARMLESS)
def test_an_evil_operator_harms_only_itself(
    tmp_path: Path, kind: type[Operator], expected: object
) -> None:
    local = Local(tmp_path, STREAMS, [INNOCENT, operator(kind)], workers=2)
    play(local)
    assert local.results("innocent") == expected
    quarantined = local.committer.checkpoint.head().quarantined
    assert set(quarantined) == ({"evil@2"} if kind in evil_operators.FAILING else set())
    for reason in quarantined.values():
        assert reason.isprintable()
        assert len(reason) < 4000
    local.reopen()
    local.committer.commands.submit(CancelQuery("evil"))
    local.batch()
    assert "evil" not in local.committer.checkpoint.registry().queries


@pytest.mark.parametrize("part", ["load", "accept", "release", "save", "step", "state_bytes"])
def test_a_failure_anywhere_quarantines_with_the_state_kept(
    tmp_path: Path, part: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a state is loaded by another process, or moves to another worker."""
    counted = operator(evil_operators.Counted)
    local = Local(tmp_path, STREAMS, [INNOCENT, counted], workers=2)
    local.batch({"trades": ROWS[0]})
    _, plan = local.committer.commands.next_registry_and_plan()
    home = plan.placement["evil"]

    if part in ("accept", "release"):
        local.committer.commands.request_plan(Plan(2, {"evil": 1 - home}))
        local.batch()  # decided after this batch; released in the next, accepted in the one after
        if part == "accept":
            local.batch()
    if part == "load":
        local.forget()

    def fail(*_: object) -> None:
        raise ZeroDivisionError(part)

    failing = property(fail) if part == "state_bytes" else fail
    with monkeypatch.context() as patch:
        patch.setattr(OperatorTask, part, failing)
        local.batch({"trades": ROWS[1]})
    head = local.committer.checkpoint.head()
    assert head.quarantined == {"evil@2": f"ZeroDivisionError: {part}"}
    local.committer.commands.submit(ResumeQuery("evil"))
    local.batch()
    local.batch({"trades": ROWS[2]})
    local.batch({"trades": last_row()})
    local.rest()
    assert local.results("innocent") == expected
    seen = len(ROWS[0]) + len(ROWS[2]) + 1  # without the rows of the failed batch
    assert max(local.results("evil")) == (seen,)


def test_an_operator_due_in_the_past_makes_no_batches_without_end(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [operator(evil_operators.DuePast)], workers=1)
    local.batch({"trades": ROWS[0]})
    assert local.rest() <= 1
    counts = local.results("evil")
    local.forget()  # another process does the same
    local.batch()
    assert local.results("evil") == counts
    local.batch({"trades": ROWS[1]})
    assert local.rest() <= 1


def test_what_is_published_with_other_columns_reaches_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dear = Submission("query", "dear", "SELECT ts, symbol FROM trades", None, True)
    reader = Submission("query", "reader", "SELECT ts FROM dear")
    local = Local(tmp_path, STREAMS, [dear, reader], workers=1)
    step = QueryWork.step

    def widened(work: QueryWork, inbox: Inbox, backfill: Any = None) -> None:
        if work.query.name == "dear":
            task = work.context.task_for_update(work.query)
            really = task.step

            def other(*given: object) -> object:
                output = really(*given)  # type: ignore[arg-type]
                return type(output)(output.rows.rename_columns(["a", "b"]))

            monkeypatch.setattr(task, "step", other)
        step(work, inbox, backfill)

    with monkeypatch.context() as patch:
        patch.setattr(QueryWork, "step", widened)
        local.batch({"trades": ROWS[0]})
    local.batch({"trades": ROWS[1]})
    assert set(local.committer.checkpoint.head().quarantined) == {"dear@1"}
