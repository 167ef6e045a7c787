"""The local cache of remote state: bounded, shared, and never trusted without a checksum."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.memory_store import memory_store

from evenflow.errors import DamagedFileError
from evenflow.storage.bundle import Bundle, PartRef, fetch_file, fetch_parts, pack, read_part
from evenflow.storage.file_store import FileStore
from evenflow.storage.options import StorageOptions
from evenflow.storage.segment_cache import SegmentCache, open_cache


def written(store: FileStore, file: str = "state/a") -> list[PartRef]:
    bundle = Bundle(file)
    refs = [bundle.add(pack(pa.table({"x": list(range(n, n + 1000))}))) for n in range(20)]
    bundle.write(store)
    return refs


class Remote:
    """A remote store that counts its reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.reads = memory_store(), 0
        for name in ("read", "read_ranges"):
            monkeypatch.setattr(self.store, name, self.counting(getattr(self.store, name)))

    def counting(self, read: Any) -> Any:
        def counted(*given: Any) -> Any:
            self.reads += 1
            return read(*given)

        return counted


def test_what_was_written_or_read_here_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote(monkeypatch)
    remote.store.cache = SegmentCache(tmp_path / "a", 1 << 30)
    remote.store.cache.folder.mkdir()
    refs = written(remote.store)
    parts = [read_part(remote.store, ref).to_pybytes() for ref in refs]
    assert remote.reads == 0
    remote.store.cache = SegmentCache(tmp_path / "b", 1 << 30)  # another machine
    remote.store.cache.folder.mkdir()
    fetch_parts(remote.store, refs[5:9])
    assert remote.reads == 1, "parts of one file are fetched together"
    assert [read_part(remote.store, ref).to_pybytes() for ref in refs[5:9]] == parts[5:9]
    assert remote.reads == 1
    assert read_part(remote.store, refs[0]).to_pybytes() == parts[0], "a hole is not the part"
    assert remote.reads == 2
    fetch_file(remote.store, refs[-1])
    assert [read_part(remote.store, ref).to_pybytes() for ref in refs] == parts
    assert remote.reads == 3


def test_a_damaged_copy_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Remote(monkeypatch)
    remote.store.cache = SegmentCache(tmp_path, 1 << 30)
    ref = written(remote.store)[3]
    (copy,) = tmp_path.iterdir()
    data = bytearray(copy.read_bytes())
    data[ref.offset + 7] ^= 1
    copy.write_bytes(data)
    part = read_part(remote.store, ref).to_pybytes()
    assert remote.reads == 1
    assert read_part(remote.store, ref).to_pybytes() == part
    assert remote.reads == 1, "the copy was not mended"
    copy.unlink()
    remote.store.write(ref.file, [data])
    with pytest.raises(DamagedFileError, match=f"state/a is damaged: .*offset {ref.offset}"):
        read_part(remote.store, ref)


def test_results_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Remote(monkeypatch)
    remote.store.cache = SegmentCache(tmp_path, 1 << 30)
    (first, *_) = written(remote.store, "results/data/a")
    read_part(remote.store, first)
    assert remote.reads == 1
    assert list(tmp_path.iterdir()) == []


def test_the_least_recently_used_copies_are_deleted_first(tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path, max_bytes=100 << 10, max_files=1000)
    for at in range(40):
        cache.add(f"state/{at}", [(0, b"x" * (8 << 10))])
        os.utime(tmp_path / f"state+{at}", ns=(at, at))
        if at >= 2:
            assert cache.read("state/0", 0, 10) is not None, "it is used all the time"
    cache.trim()
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()) <= 100 << 10
    left = {path.name for path in tmp_path.iterdir()}
    assert {"state+0", "state+39"} <= left
    assert "state+1" not in left
    few = SegmentCache(tmp_path, max_bytes=1 << 30, max_files=3)
    few.trim()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_full_disk_or_another_users_folder_only_means_no_cache(tmp_path: Path) -> None:
    SegmentCache(Path("/proc/nowhere"), 1 << 30).add("state/a", [(0, b"x")])
    assert SegmentCache(tmp_path, 1 << 30).read("state/none", 0, 1) is None
    options = StorageOptions(cache_folder=str(tmp_path / "cache"))
    cache = open_cache("s3://bucket/flow", options)
    assert cache is not None
    assert cache.folder.stat().st_mode & 0o077 == 0
    assert open_cache("s3://bucket/flow", StorageOptions(cache_bytes=0)) is None
    (tmp_path / "file").touch()
    blocked = StorageOptions(cache_folder=str(tmp_path / "file"))
    assert open_cache("s3://bucket/flow", blocked) is None
