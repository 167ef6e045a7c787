"""Writes: on the disk when they say so, and nothing left of those that failed."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.memory_store import memory_store

from evenflow.errors import InputError
from evenflow.storage.file_store import FileStore
from evenflow.storage.options import storage_options

ENDLESS = """
import sys, time
from evenflow.storage.file_store import FileStore

def parts():
    yield b"x" * 100_000
    print("half", flush=True)
    time.sleep(100)

FileStore(sys.argv[1]).write("state/a", parts())
"""


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"one"
        raise OSError("no space left")

    store = FileStore(str(tmp_path))
    store.write("state/a", [b"before"])
    with pytest.raises(OSError, match="no space"):
        store.write("state/a", parts())
    assert all_files(tmp_path) == ["state/a"]
    assert store.read("state/a").to_pybytes() == b"before"


def test_what_a_killed_writer_left_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    for kept in ("pulse/.folder", "spark/offsets/.0.crc", "spark/.a.0123456789ab", "state/b"):
        (tmp_path / kept).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kept).touch()
    before = all_files(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert len(all_files(tmp_path)) == len(before) + 1
    FileStore(str(tmp_path)).delete_temporary()
    assert all_files(tmp_path) == before


def test_a_new_root_is_for_its_owner_only(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "parent" / "run"))
    store.write("results/data/x", [b"rows"])
    assert stat.S_IMODE((tmp_path / "parent" / "run").stat().st_mode) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    FileStore(str(shared)).write("x", [b""])
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755  # as its owner wants it


@pytest.mark.parametrize("place", ["local", "remote"])
def test_a_file_is_created_once_and_found_by_parts(tmp_path: Path, place: str) -> None:
    store = FileStore(str(tmp_path)) if place == "local" else memory_store()
    store.create("ledger/1", [b"012", b"3456789"])
    with pytest.raises(FileExistsError):
        store.create("ledger/1", [b"other"])
    assert store.read("ledger/1").to_pybytes() == b"0123456789"
    ranges = [(7, 2), (0, 3), (8, 9), (20, 5)]
    parts = [part.to_pybytes() for part in store.read_ranges("ledger/1", ranges)]
    assert parts == [b"78", b"012", b"89", b""]
    store.write("ledger/deep/2", [b""])
    assert store.list_names("ledger") == ["1", "deep"]
    assert store.exists("ledger/1")
    store.delete(["ledger/1", "ledger/none"])
    assert not store.exists("ledger/1")
    for read in (store.read, lambda name: store.read_range(name, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read("ledger/1")
    assert all_files(tmp_path) == (["ledger/deep/2"] if place == "local" else [])


def test_an_answer_that_got_lost_is_no_other_writer() -> None:
    store = memory_store()
    store.create("ledger/1", [b"mine"])
    store.create("ledger/1", [b"mine"])


@pytest.mark.parametrize(
    ("root", "instead"),
    [
        ("dbfs:/flow", "use the URI of the bucket"),
        ("hdfs://host/flow", "mount it"),
        ("wasbs://c@a.blob.core.windows.net/x", "use abfss://"),
        ("https://bucket.example/x", "use s3:// with the storage option endpoint"),
        ("ftp://host/flow", "use a local path, s3://, s3a://, gs:// or abfss://"),
        ("s3:///flow", "needs a bucket"),
    ],
)
def test_other_places_are_refused_with_what_to_use(root: str, instead: str) -> None:
    with pytest.raises(InputError, match=instead):
        FileStore(root)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfss"])
def test_buckets_are_accepted(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    bucket = "flows@account.dfs.core.windows.net" if scheme == "abfss" else "flows"
    store = FileStore(f"{scheme}://{bucket}/a/b/")
    assert store.uri == f"{scheme}://{bucket}/a/b"
    assert store.local_root is None


def test_options_are_checked_and_their_values_not_shown() -> None:
    options = storage_options({"region": "eu-west-1", "options": {"secret_access_key": "hush"}})
    assert options.service == {"region": "eu-west-1", "secret_access_key": "hush"}
    assert "hush" not in repr(options)
    with pytest.raises(InputError, match="unknown storage option 'endpiont'"):
        storage_options({"endpiont": "http://here"})
    with pytest.raises(InputError, match="nonsense"):
        FileStore("s3://flows/x", options=storage_options({"options": {"nonsense": 1}}))
    with pytest.raises(InputError, match="a size such as '10 GB', got 'much'"):
        storage_options({"cache": "much"})
