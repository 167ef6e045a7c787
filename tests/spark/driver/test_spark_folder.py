"""What Spark needs to continue is saved with a commit and restored elsewhere."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.memory_store import memory_store

from evenflow.errors import DamagedFileError
from evenflow.spark.driver.spark_folder import SparkFolder, needed_files
from evenflow.storage.file_store import FileStore


def spark_files(root: Path, batches: int) -> None:
    """What Spark's query has on disk while it runs the last of some batches."""
    logs: dict[str, Iterable[object]] = {
        "metadata": ["metadata"],
        "offsets": range(batches),
        "commits": range(batches - 1),
    }
    source = [f"{n}.compact" if n % 10 == 9 else n for n in range(batches)]
    for folder, names in {**logs, "sources/0": source, "sources/1": [0]}.items():
        for name in names:
            path = root / "spark" / ("metadata" if folder == "metadata" else f"{folder}/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{folder} {name}")
    (root / "spark/offsets/.3.crc").touch()


def names(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_a_start_elsewhere_has_what_spark_needs_and_nothing_else() -> None:
    store = memory_store()
    first = SparkFolder(store)
    first.open({}, 0)
    spark_files(first.root, 12)
    saved = first.save(11, 0)
    assert set(saved.values()) == {"offsets/000000000011-000000"}, "one write"
    spark_files(first.root, 13)
    again = first.save(12, 0)
    new = [name for name, file in again.items() if file not in saved.values()]
    assert sorted(new) == ["commits/11", "offsets/12", "sources/0/12"]
    restored = sorted(str(p.relative_to(first.root / "spark")) for p in needed_files(first.root))
    assert restored == ["commits/11", "metadata", "offsets/11", "offsets/12",
                        "sources/0/10", "sources/0/11", "sources/0/12", "sources/0/9.compact",
                        "sources/1/0"]  # fmt: skip
    second, third = SparkFolder(store), SparkFolder(store)
    second.open(again, 13)  # batch 12 is committed
    assert names(second.root / "spark") == sorted([*restored, "commits/12"])
    third.open(saved, 12)  # it is planned only
    assert names(third.root / "spark") == sorted([*restored, "offsets/10", "commits/10"])
    for folder in (second, third):
        assert folder.root != first.root
        for name in restored:
            content = (folder.root / "spark" / name).read_text()
            assert content == (first.root / "spark" / name).read_text()
    assert third.save(12, 1) == again, "the plan of the first driver is committed"
    for folder in (first, second, third):
        folder.close()
        assert not folder.root.exists()


def test_the_plan_of_the_last_driver_counts_and_a_damaged_one_stops_the_start(
    tmp_path: Path,
) -> None:
    store = FileStore(str(tmp_path))
    for epoch in (2, 10):
        plan = {"offsets/0": f"of epoch {epoch}".encode()}
        store.write_record(f"offsets/000000000000-{epoch:06d}", plan)
    SparkFolder(store).open({}, 0)
    assert (tmp_path / "spark/offsets/0").read_text() == "of epoch 10"
    (tmp_path / "offsets/000000000000-000010").write_bytes(b"")  # after a power cut
    with pytest.raises(DamagedFileError, match=r"000010 is damaged: .*; delete it: then the batch"):
        SparkFolder(store).open({}, 0)
