"""All that a ledger entry needs is on the disk before the entry is."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, trades
from tests.support.submissions import any_plan, hosting_all

from evenflow.spark.protocol.results_index import IndexRecord, index_file


def test_a_commit_waits_for_every_file_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files on the disk are those whose bytes and, afterwards, whose folder were fsynced."""
    flushed: set[int] = set()  # inodes
    on_disk: dict[str, set[str]] = {}  # folder -> names
    fsync = os.fsync

    def noting(handle: int) -> None:
        fsync(handle)
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            inodes = {entry.name: entry.inode() for entry in os.scandir(path)}
            kept = {name for name, inode in inodes.items() if inode in flushed}
            on_disk[str(path.relative_to(tmp_path))] = kept
            entries = sorted(kept) if path == tmp_path / "ledger" else []
            if entries and entries[-1] not in checked:
                checked.append(entries[-1])
                need(int(entries[-1]))
        else:
            flushed.add(os.fstat(handle).st_ino)

    checked: list[str] = []
    needed: set[str] = set()
    opened: list[Local] = []

    def need(batch: int) -> None:
        if not opened:
            return
        local = opened[0]
        entry = local.committer.checkpoint.ledger.entry(batch)
        files = {file for group in entry.live_files.values() for file in group}
        files |= {handoff.state.file for handoff in entry.incoming}
        files |= {derived.rows.file for derived in entry.derived_rows}
        index = local.store.read_record(index_file(batch - 1, 0), IndexRecord)
        files |= index.files()
        files |= set(entry.spark_files.values()) | {index_file(batch - 1, 0)}
        files |= {f"plans/{entry.plan_number:018d}", f"history/recent/{batch - 1:012d}-000000"}
        for file in files:
            if (tmp_path / file).exists():
                folder, _, name = file.rpartition("/")
                assert name in on_disk.get(folder, ()), f"{file} before entry {batch}"
                needed.add(folder)

    monkeypatch.setattr(os, "fsync", noting)
    local = hosting_all(tmp_path)
    local.store.power_safe = True
    opened.append(local)
    rng = np.random.default_rng(3)
    for at, rows in enumerate(cut(rng, trades(rng, 80), 5)):
        local.committer.commands.request_plan(any_plan(random.Random(at), 3))  # noqa: S311
        local.batch({"trades": rows})
    local.rest()
    assert {"state", "results/data/000000000000"} <= needed
    assert {"results/index", "offsets", "plans"} <= needed
