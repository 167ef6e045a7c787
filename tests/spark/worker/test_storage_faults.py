"""A storage error stops the batch and blames no query; after the repair the results are equal."""

import gc
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import NAMES, STREAMS, SYMBOLS, hosting_all, last_row

from evenflow.errors import StorageError
from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import TableSpec
from evenflow.storage.bundle import Bundle, pack

Damage = Callable[[Path], None]


def truncate(path: Path) -> None:
    """Keep the first bytes."""
    path.write_bytes(path.read_bytes()[:10])


def scramble(path: Path) -> None:
    """Overwrite everything, so that no Arrow stream is left."""
    path.write_bytes(b"\xff" * path.stat().st_size)


def batches() -> list[pa.Table]:
    rng = np.random.default_rng(3)
    rows = trades(rng, 120)
    return [*(rows.slice(30 * at, 30) for at in range(4)), last_row()]


def new_processes(local: Local) -> None:
    """Start new processes that share nothing with the old ones, not even runs in memory."""
    local.forget()
    gc.collect()


def files_of(local: Local, kind: str) -> list[str]:
    """The files of one kind that the next batch reads."""
    head = local.committer.checkpoint.head()
    if kind == "state":
        return sorted({file for files in head.live_files.values() for file in files})
    if kind == "hand-off":
        return sorted({handoff.state.file for handoff in head.incoming})
    return sorted({change.rows.file for change in head.subscription_changes})


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *((kind, Path.unlink) for kind in ("state", "hand-off", "subscriptions")),
        *((kind, truncate) for kind in ("state", "hand-off", "subscriptions")),
        *((kind, scramble) for kind in ("state", "subscriptions")),
    ],
)
def test_a_damaged_file_stops_the_batch_and_after_its_repair_nothing_is_missing(
    tmp_path: Path, kind: str, damage: Damage
) -> None:
    calm, hurt = hosting_all(tmp_path / "calm", 2), hosting_all(tmp_path / "hurt", 2)
    found = 0
    for at, rows in enumerate(batches()):
        for local in (calm, hurt):
            table = RoutingTable.from_entries(
                hash_keys(pa.array(SYMBOLS, pa.string())), [at % 2] * len(SYMBOLS)
            )
            keyed = ("sums", "pairs", "dearest", "alarms")
            local.committer.commands.request_plan(Plan(2, {}, dict.fromkeys(keyed, table)))
            local.subscribe("above", [{"subscription": f"more{at}", "limit": 30.0}])
        calm.batch({"trades": rows})
        for file in files_of(hurt, kind):
            found += 1
            path = tmp_path / "hurt" / file
            shutil.copy(path, tmp_path / "copy")
            new_processes(hurt)
            damage(path)
            with pytest.raises(StorageError, match=rf"{file} (cannot be read|is damaged): .*start"):
                hurt.batch({"trades": rows})
            new_processes(hurt)
            shutil.copy(tmp_path / "copy", path)
        hurt.batch({"trades": rows})
    calm.rest()
    hurt.rest()
    assert found > 2
    assert hurt.committer.checkpoint.head().quarantined == {}
    for name in NAMES:
        assert hurt.results(name) == calm.results(name), name
        assert calm.results(name), f"{name} gave nothing: the test is empty"


def test_a_missing_reference_table_blames_no_query(tmp_path: Path) -> None:
    names = pa.table({"symbol": ["a", "b"]})
    bundle = Bundle("tables/names")
    table = TableSpec(names.schema, bundle.add(pack(names)))
    sql = "SELECT t.ts, t.price FROM trades t JOIN names n ON t.symbol = n.symbol"
    local = Local(
        tmp_path, STREAMS, [Submission("query", "named", sql)], tables={"names": table}, workers=1
    )
    rows = batches()[0]
    with pytest.raises(StorageError, match="tables/names cannot be read"):
        local.batch({"trades": rows})
    bundle.write(local.store)
    local.forget()
    local.batch({"trades": rows})
    assert local.results("named").total() == sum(
        s in ("a", "b") for s in rows["symbol"].to_pylist()
    )


def test_a_disk_that_cannot_be_written_stops_the_batch(tmp_path: Path) -> None:
    local = hosting_all(tmp_path, 1)
    folder = tmp_path / "results" / "data"
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"results/data/.* cannot be written.*start again"):
        local.batch({"trades": batches()[0]})
    folder.unlink()
    local.batch({"trades": batches()[0]})
    assert local.committer.checkpoint.head().quarantined == {}
