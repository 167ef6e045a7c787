"""Results are read from the files of a checkpoint: as a whole, as pages, and newest first."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import InputError
from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol import stored_results
from evenflow.spark.protocol.stored_results import StoredResults

DEAR = SUBMISSIONS[0]
ALL = Submission("query", "everything", "SELECT ts, symbol, qty FROM trades", ("symbol",))


@pytest.fixture
def local(tmp_path: Path) -> Local:
    """Rows in some batches and none in others; `everything` has a part for each worker."""
    made, rng = Local(tmp_path, STREAMS, [DEAR, ALL]), np.random.default_rng(3)
    for count in (0, 7, 0, 0, 40, 1, 0, 25, 0):
        made.batch({"trades": trades(rng, count)} if count else {})
    return made


def pages(
    stored: StoredResults, name: str, limit: int, since: str = "0"
) -> tuple[list[ResultsPage], pa.Table]:
    """Read page by page to the end."""
    found = [stored.page(name, ResultPosition.parse(since), limit)]
    while not found[-1].complete:
        assert len(found) < 200
        found.append(stored.page(name, ResultPosition.parse(str(found[-1].next)), limit))
    return found, pa.concat_tables([page.rows for page in found])


@pytest.mark.parametrize("name", ["dear", "everything"])
@pytest.mark.parametrize("limit", [1, 3, 8, 1000])
def test_pages_have_every_row_once_and_in_order(local: Local, name: str, limit: int) -> None:
    stored = StoredResults(local.store)
    whole = stored.table(name)
    assert len(whole) == local.results(name).total() > 20
    found, rows = pages(stored, name, limit)
    assert rows.equals(whole.combine_chunks()) or rows.to_pylist() == whole.to_pylist()
    assert all(len(page.rows) <= limit for page in found)
    assert found[-1].next == ResultPosition(9)


@pytest.mark.parametrize("limit", [1, 8, 26, 1000])
def test_without_a_position_the_newest_rows_come_in_their_order(local: Local, limit: int) -> None:
    stored = StoredResults(local.store)
    whole = stored.table("everything").to_pylist()
    page = stored.page("everything", None, limit)
    assert page.rows.to_pylist() == whole[-limit:]
    assert stored.table("everything", limit=limit).to_pylist() == whole[-limit:]
    assert pages(stored, "everything", 1000, str(page.first))[1].to_pylist() == whole[-limit:]
    assert page.complete


def test_a_page_continues_with_the_next_commit(local: Local) -> None:
    stored = StoredResults(local.store)
    page = stored.page("everything", None, 5)
    assert not len(stored.page("everything", page.next, 5).rows)
    local.batch({"trades": trades(np.random.default_rng(5), 3)})
    assert len(stored.page("everything", page.next, 5).rows) == 3


def test_large_rows_make_short_pages(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_results, "MAX_PAGE_BYTES", 200)
    stored = StoredResults(local.store)
    found, rows = pages(stored, "everything", 1000)
    assert len(found) > 5
    assert rows.to_pylist() == stored.table("everything").to_pylist()
    newest = stored.page("everything", None, 1000)
    assert 0 < len(newest.rows) < 20
    assert newest.rows.to_pylist() == rows.to_pylist()[-len(newest.rows) :]


def test_batches_can_be_chosen_and_shown(local: Local) -> None:
    stored = StoredResults(local.store)
    rows = stored.table("everything", since=4, until=6, batch="n")
    assert sorted(set(rows["n"].to_pylist())) == [4, 5]
    assert len(rows) == 41
    assert stored.table("everything", since=4, limit=2, batch="n")["n"].to_pylist() == [7, 7]


def test_a_cancelled_query_is_found_and_its_name_can_be_used_again(local: Local) -> None:
    stored = StoredResults(local.store)
    before = stored.table("dear").to_pylist()
    local.committer.commands.submit(CancelQuery("dear"))
    local.batch()
    assert stored.table("dear").to_pylist() == before
    assert stored.names() == ["dear", "everything"]
    again = Submission("query", "dear", "SELECT ts, venue FROM trades WHERE price > 50", None)
    local.committer.commands.submit(again)
    local.batch()
    old, new = stored.versions("dear")
    assert (old.uid != new.uid, new.schema.names) == (True, ["ts", "venue"])
    assert stored.table("dear").to_pylist() == []


def test_what_is_not_there_is_refused(local: Local, tmp_path: Path) -> None:
    stored = StoredResults(local.store)
    with pytest.raises(InputError, match="there are dear, everything"):
        stored.page("dare", None, 5)
    for odd in ("", "x", "-1", "1.2.3", "9" * 30, "٣"):
        with pytest.raises(InputError, match="position"):
            ResultPosition.parse(odd)
