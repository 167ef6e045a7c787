"""A run whose next batch fails every time starts without the query that makes it fail."""

from pathlib import Path

import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trade_batches
from tests.support.submissions import STREAMS, last_row

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark.driver import leave_out
from evenflow.spark.driver.pending_state import CancelQuery, ResumeQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.worker.query_work import QueryWork

SUMS = """SELECT window.start AS s, symbol, count(*) AS n
    FROM trades GROUP BY window(ts, '60 seconds'), symbol"""
GOOD = Submission("query", "good", SUMS, ("symbol",))
BAD = Submission("query", "bad", SUMS)
ALARMS = """SELECT window.start AS s, symbol, count(*) AS n FROM trades
    WHERE symbol = :symbol AND price > :limit GROUP BY window(ts, '10 seconds'), symbol"""
SUBSCRIPTIONS = [
    {"subscription": f"{symbol}{limit}", "symbol": symbol, "limit": float(limit)}
    for symbol in ("a", "b", "c", "d", "e'")
    for limit in (5, 60)
]
ROWS = trade_batches(4, 30)


class Death(BaseException):
    """Something that no guard holds back."""


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches fail as soon as `bad` gets rows."""
    local_queries = QueryWork.__init__

    def init(work: QueryWork, context: object, query: object) -> None:
        local_queries(work, context, query)  # type: ignore[arg-type]
        if work.query.name == "bad":
            raise Death

    monkeypatch.setattr(QueryWork, "__init__", init)


def quarantined(local: Local) -> dict[str, str]:
    found = local.committer.checkpoint.head().quarantined
    return {uid.partition("@")[0]: why for uid, why in found.items()}


@pytest.mark.usefixtures("deadly")
@pytest.mark.parametrize("how", ["without", "safe", "cancel"])
def test_a_run_that_fails_at_every_restart_starts_without_the_query(
    tmp_path: Path, how: str
) -> None:
    local = Local(tmp_path, STREAMS, [GOOD], workers=2)
    local.batch({"trades": ROWS[0]})
    local.committer.commands.submit(BAD)
    local.batch({"trades": ROWS[1]})
    for _ in range(2):
        with pytest.raises(Death):
            local.batch({"trades": ROWS[2]})
        local.reopen()
    if how == "cancel":
        local.committer.commands.submit(CancelQuery("bad"))
        local.reopen()
    local.committer.leave_out(["bad"] if how == "without" else [], safe=how == "safe")
    reasons = {
        "without": leave_out.NAMED,
        "safe": leave_out.UNPROVEN,
        "cancel": leave_out.CANCELLED,
    }
    assert quarantined(local) == {"bad": reasons[how]}
    for rows in (*ROWS[2:], last_row()):
        local.batch({"trades": rows})
    local.rest()
    assert sum(n for _, _, n in local.results("good").elements()) == sum(map(len, ROWS))
    assert ("bad" in local.committer.checkpoint.registry().queries) == (how != "cancel")


@pytest.mark.parametrize("name", ["bad", "good", "alarms"])
def test_what_is_left_out_goes_on_from_its_state(tmp_path: Path, name: str) -> None:
    """Also if its state or subscriptions were on their way when the run ended."""
    alarms = Submission("template", "alarms", ALARMS.replace("10 s", "60 s"), ("symbol",))
    local = Local(tmp_path, STREAMS, [GOOD, BAD, alarms], workers=2)
    local.batch({"trades": ROWS[0]})
    home = local.committer.commands.next_registry_and_plan()[1].placement["bad"]
    local.committer.commands.request_plan(Plan(2, {"bad": 1 - home}))
    local.batch()
    local.subscribe("alarms", SUBSCRIPTIONS)
    local.batch()  # now the state of `bad` is a hand-off, and the subscriptions begin
    head = local.committer.checkpoint.head()
    assert head.incoming
    assert head.subscription_changes
    local.reopen()
    local.committer.leave_out([name], safe=False)
    assert list(quarantined(local)) == [name]
    local.batch({"trades": ROWS[1]})
    assert list(quarantined(local)) == [name]
    local.committer.commands.submit(ResumeQuery(name))
    local.batch()
    local.batch({"trades": ROWS[2]})
    local.batch({"trades": last_row()})
    local.rest()
    counted = sum(row[-1] for row in local.results(name).elements())
    if name == "alarms":
        limits = [
            (row["symbol"], row["price"])
            for row in ROWS[2].to_pylist()
            for limit in (5, 60)
            if row["symbol"] is not None and row["price"] is not None and row["price"] > limit
        ]
        assert counted == len(limits) > 0
    else:
        assert counted == len(ROWS[0]) + len(ROWS[2])


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [GOOD], workers=1)
    with pytest.raises(InputError, match="no query 'nobody'; there are good"):
        local.committer.leave_out(["nobody"], safe=False)


def test_safe_leaves_everything_out_if_no_batch_was_good(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [GOOD, BAD], workers=1)
    local.committer.leave_out([], safe=True)
    assert quarantined(local) == dict.fromkeys(["bad", "good"], leave_out.UNPROVEN)
