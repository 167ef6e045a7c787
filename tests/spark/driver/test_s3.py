"""A checkpoint on a real S3 server: crashes, two drivers, few requests, the cache."""

import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scripts.s3_server import BUCKET, S3Server
from tests.support.crash_points import Course, Kills, at_fault_points
from tests.support.local_runtime import Local, runtime
from tests.support.memory_store import memory_store
from tests.support.spark_harness import trades
from tests.support.submissions import (
    NAMES,
    STREAMS,
    SUBMISSIONS,
    any_plan,
    hosting_all,
)

from evenflow.errors import FencedError, StorageError
from evenflow.model import Plan
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.worker.worker_process import WorkerProcess
from evenflow.storage.file_store import FileStore
from evenflow.storage.options import storage_options

ROWS = {"trades": trades(np.random.default_rng(1), 60)}
THREE = [one for one in SUBMISSIONS if one.name in ("dear", "sums", "pairs")]
MAX_REQUESTS = 60


def test_the_server_enforces_create_only_writes(s3: S3Server) -> None:
    """Otherwise the tests below would prove nothing."""
    store = s3.store("create")
    store.create("ledger/1", [b"first"])
    with pytest.raises(FileExistsError, match="412"):
        store.create("ledger/1", [b"second"])
    store.create("ledger/1", [b"first"])  # an answer that got lost
    assert store.read("ledger/1").to_pybytes() == b"first"
    assert store.read_range("ledger/1", 3, 100).to_pybytes() == b"st"
    assert store.read_range("ledger/1", 300, 100).to_pybytes() == b""
    store.write("a b/c%20d/ü", [b"x"])
    assert store.list_names("a b/c%20d") == ["ü"]
    store.delete(["a b/c%20d/ü", "ledger/1", "ledger/none"])
    assert store.list_names("ledger") == store.list_names("a b") == []


def test_what_is_wrong_with_the_server_is_said(s3: S3Server) -> None:
    wrong = s3.storage | {"options": {"access_key_id": "testkey", "secret_access_key": "no"}}
    store = FileStore(f"s3://{BUCKET}/x", options=storage_options(wrong))
    with pytest.raises(OSError, match="403"):
        store.read("meta")
    missing = FileStore("s3://not-there/x", options=storage_options(s3.storage))
    with pytest.raises(OSError, match="NoSuchBucket"):
        missing.write("meta", [b"x"])


@pytest.mark.parametrize("point", ["worker.after_write", "driver.results", "driver.ledger"])
def test_a_crash_changes_no_result(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, point: str
) -> None:
    """The driver and all processes die at the point, in each batch of moves once."""
    course, kills = Course(seed=3, rows=60, batches=3), Kills(point)
    at_fault_points(monkeypatch, kills)
    calm = course.calm(hosting_all(memory_store()))
    stored = hosting_all(s3.store(f"crash/{point}", cache_folder=str(tmp_path)))
    wild = course.play(stored, lambda: setattr(kills, "left", 1))
    kills.left = 0
    wild.rest()
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name


def test_of_two_drivers_exactly_one_goes_on(s3: S3Server) -> None:
    calm, first = Local(memory_store(), STREAMS, THREE), Local(s3.store("two"), STREAMS, THREE)
    for local in (calm, first):
        local.batch(ROWS)
    second = first.another()
    with pytest.raises(FencedError, match="s3://evenflow/two was taken over by another driver"):
        first.batch(ROWS)
    for local in (calm, second):
        for _ in range(4):  # old entries are deleted meanwhile
            local.batch(ROWS)
    with pytest.raises(FencedError):
        first.batch(ROWS)
    assert {n: second.results(n) for n in ("dear", "sums", "pairs")} == {
        n: calm.results(n) for n in ("dear", "sums", "pairs")
    }


class EightMachines(Local):
    """Eight workers, each in a process of its own; with `wander`, every batch on another machine.

    Every machine has its own cache.
    """

    def __init__(self, s3: S3Server, prefix: str, caches: Path, *, wander: bool) -> None:
        self.wander, self.turn = wander, 0
        self.stores = [s3.store(prefix, cache_folder=str(caches / str(n))) for n in range(8)]
        super().__init__(s3.store(prefix, cache=0), STREAMS, THREE, workers=8)

    def forget(self) -> None:
        epoch = self.committer.checkpoint.head().epoch
        self.processes = [WorkerProcess(Ledger(s, epoch), runtime()) for s in self.stores]

    def process(self) -> WorkerProcess:
        self.turn += 1
        shift = self.turn // 8 if self.wander else 0
        return self.processes[(self.turn + shift) % 8]


@pytest.mark.parametrize("wander", [False, True])
def test_a_batch_of_eight_workers_and_three_queries_takes_few_requests(
    s3: S3Server, tmp_path: Path, wander: bool
) -> None:
    """By the server's log: keyed and whole queries, moves of keys, all machines cold or warm."""
    prefix = f"requests-{wander}"
    local = EightMachines(s3, prefix, tmp_path, wander=wander)
    local.committer.balancer.open(local.committer.checkpoint.ledger)  # records the history
    chance, rng = random.Random(1), np.random.default_rng(1)  # noqa: S311
    totals = []
    for at in range(14):
        if at % 5 == 2:
            plan = any_plan(chance, 8)
            local.committer.commands.request_plan(
                Plan(8, {"dear": at % 8}, {n: plan.tables[n] for n in ("sums", "pairs")})
            )
        before = len(s3.requests())
        rows = trades(rng, 400)
        keys = pa.array([f"key {n}" for n in rng.integers(0, 64, len(rows))])  # on all workers
        local.batch({"trades": rows.set_column(rows.column_names.index("symbol"), "symbol", keys)})
        made = s3.requests()[before:]
        totals.append((len(made), s3.kinds(made, prefix)))
    assert max(totals, key=lambda t: t[0])[0] <= MAX_REQUESTS, max(totals, key=lambda t: t[0])
    for _, kinds in totals[1:]:
        assert kinds["PUT state"] >= 7, "the workers had nothing to do"
        assert kinds["GET list or delete"] == 0, "nothing is listed in a batch"


def test_a_process_that_starts_again_reads_from_the_local_disk(
    s3: S3Server, tmp_path: Path
) -> None:
    local = Local(s3.store("cache", cache_folder=str(tmp_path)), STREAMS, THREE)
    for _ in range(6):
        local.batch(ROWS)

    def state_reads() -> int:
        before = len(s3.requests())
        local.forget()
        local.batch(ROWS)
        return s3.kinds(s3.requests()[before:], "cache")["GET state"]

    assert state_reads() == 0
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    local.store = s3.store("cache", cache_folder=str(tmp_path))  # another machine
    assert state_reads() > 0
    assert state_reads() == 0


def test_damage_on_the_server_stops_the_run(s3: S3Server, tmp_path: Path) -> None:
    local = Local(s3.store("damage", cache_folder=str(tmp_path)), STREAMS, THREE)
    local.batch(ROWS)
    (ref, *_) = local.committer.checkpoint.head().state_refs.values()
    content = local.store.read(ref.file).to_pybytes()
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    local.store = s3.store("damage", cache_folder=str(tmp_path))
    local.store.write(ref.file, [content[:-1]])
    local.forget()
    with pytest.raises(StorageError, match=f"s3://evenflow/damage/{ref.file} is damaged"):
        local.batch(ROWS)
    local.store.write(ref.file, [content])
    local.forget()
    local.batch(ROWS)
