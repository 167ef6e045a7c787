"""Every hostile statement that compiles, beside an innocent query: its answer stays batch SQL's."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support import evil_operators
from tests.support.hostile_rows import hostile_rows
from tests.support.hostile_sql import CASES, CATALOG, SCHEMA
from tests.support.local_runtime import Local

from evenflow.errors import InputError
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec, TableSpec
from evenflow.sql import operator_path, result_bound
from evenflow.sql.failures import QueryFailed
from evenflow.storage.bundle import Bundle, pack
from evenflow.storage.file_store import FileStore

INNOCENT = """SELECT window.start AS s, symbol, count(*) AS n, sum(small) AS t
    FROM trades WHERE small BETWEEN 0 AND 1 GROUP BY window(ts, '10 seconds'), symbol"""
# DuckDB plans it for minutes and cannot be interrupted: the process ends, and the query is blamed,
# which needs real processes (`test_killed_python`, `benchmarks.attacks`).
ENDS_ITS_PROCESS = {"nested-in-list-16"}
STREAMS = {name: StreamSpec(SCHEMA, "ts", 0) for name in ("trades", "quotes")}
ROWS = [hostile_rows(at, 24, 8 * at) for at in range(3)]
END = hostile_rows(9, 1, 3600)


def expected() -> Counter[Any]:
    """The answer, computed here: one way of counting is enough to see any harm."""
    found: dict[tuple[Any, Any], list[int]] = {}
    for row in pa.concat_tables(ROWS).to_pylist():
        if row["small"] in (0, 1):
            second = int(row["ts"].timestamp()) // 10 * 10
            found.setdefault((second, row["symbol"]), []).append(row["small"])
    return Counter((s, symbol, len(v), sum(v)) for (s, symbol), v in found.items())


def results(local: Local) -> Counter[Any]:
    return Counter(
        (int(s.timestamp()), symbol, n, t)
        for s, symbol, n, t in local.results("innocent").elements()
    )


def host(folder: Path, submissions: list[Submission]) -> Local:
    names = pa.table(
        {"symbol": ["a", "b"], "name": ["A", None], "factor": [1.0, float("nan")]},
        schema=CATALOG.tables["names"],
    )
    bundle = Bundle("tables/names")
    part = bundle.add(pack(names))
    bundle.write(FileStore(str(folder)))
    innocent = Submission("query", "innocent", INNOCENT, ("symbol",))
    tables = {"names": TableSpec(names.schema, part)}
    return Local(folder, STREAMS, [innocent, *submissions], workers=2, tables=tables)


def play(local: Local) -> None:
    for rows in (*ROWS, END):
        local.batch({"trades": rows, "quotes": rows})
    local.rest()


def test_accepted_hostile_statements_harm_no_neighbour(tmp_path: Path) -> None:
    """All at once, and with a restart in between."""
    hostile = []
    for at, case in enumerate(case for case in CASES if case.accepted):
        if case.name in ENDS_ITS_PROCESS:
            continue
        form = "template" if case.is_template else "query"
        hostile.append(Submission(form, f"hostile_{at}", case.sql))
    local = host(tmp_path, hostile)
    assert len(hostile) > 30
    local.batch({"trades": ROWS[0], "quotes": ROWS[0]})
    local.reopen()
    for rows in (*ROWS[1:], END):
        local.batch({"trades": rows, "quotes": rows})
    local.rest()
    assert results(local) == expected()
    quarantined = local.committer.checkpoint.head().quarantined
    assert "innocent@1" not in quarantined
    for reason in quarantined.values():
        assert len(reason) < 1_200
        assert reason.isprintable()


def test_hostile_statements_that_come_while_it_runs_are_refused_or_harm_nobody(
    tmp_path: Path,
) -> None:
    local = host(tmp_path, [])
    local.batch({"trades": ROWS[0], "quotes": ROWS[0]})
    for at, case in enumerate(CASES[::4]):
        if case.name in ENDS_ITS_PROCESS:
            continue
        form = "template" if case.is_template else "query"
        try:
            local.committer.commands.submit(Submission(form, f"hostile_{at}", case.sql))
        except InputError as error:
            assert not case.accepted, str(error)[:200]
        else:
            assert case.accepted, case.name
    for rows in (*ROWS[1:], END):
        local.batch({"trades": rows, "quotes": rows})
    local.rest()
    assert results(local) == expected()


def test_evil_operators_all_at_once_harm_no_neighbour(tmp_path: Path) -> None:
    kinds = (*evil_operators.FAILING, *evil_operators.HARMLESS)
    evil = [
        Submission("operator", kind.__name__, operator_path(kind), None, False, None, ("trades",))
        for kind in kinds
    ]
    local = host(tmp_path, evil)
    play(local)
    assert results(local) == expected()
    failed = {uid.partition("@")[0] for uid in local.committer.checkpoint.head().quarantined}
    assert failed == {kind.__name__ for kind in evil_operators.FAILING}


def test_a_join_that_explodes_fails_at_the_bound_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_bound, "MAX_RESULT_ROWS", 200_000)
    bound = "BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts + INTERVAL 1 HOUR"
    joins = " ".join(f"JOIN trades {n} ON {n}.ok = a.ok AND {n}.ts {bound}" for n in "bcd")
    bomb = Submission("query", "bomb", f"SELECT a.ts, b.note FROM trades a {joins}")
    local = host(tmp_path, [bomb])
    play(local)
    assert "more than 200,000 rows" in local.committer.checkpoint.head().quarantined["bomb@2"]
    assert results(local) == expected()


def test_results_are_bounded_in_bytes_too() -> None:
    rows = pa.table({"text": ["x" * 1000] * 1000})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result_bound, "MAX_RESULT_BYTES", 100_000)
        with pytest.raises(QueryFailed, match="in one batch"):
            result_bound.read_bounded(rows.to_reader(max_chunksize=10))
    assert result_bound.read_bounded(rows.to_reader()).equals(rows)
