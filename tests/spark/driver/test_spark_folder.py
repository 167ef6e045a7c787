"""What Spark needs to continue is saved with a commit and restored elsewhere."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.memory_store import memory_store

from evenflow.spark.driver.spark_folder import SparkFolder, needed_files


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


def test_a_start_elsewhere_has_what_spark_needs_and_nothing_else(tmp_path: Path) -> None:
    store = memory_store()
    first = SparkFolder(store)
    first.open({})
    spark_files(first.root, 12)
    saved = first.save(11)
    assert len({ref.file for ref in saved.values()}) == 1, "one write"
    spark_files(first.root, 13)
    again = first.save(12)
    new = [name for name, ref in again.items() if ref not in saved.values()]
    assert sorted(new) == ["commits/11", "offsets/12", "sources/0/12"]
    second = SparkFolder(store)
    second.open(again)
    assert second.root != first.root
    restored = sorted(
        str(p.relative_to(first.root / "spark")) for p in needed_files(first.root / "spark")
    )
    assert restored == ["commits/11", "metadata", "offsets/11", "offsets/12",
                        "sources/0/10", "sources/0/11", "sources/0/12", "sources/0/9.compact",
                        "sources/1/0"]  # fmt: skip
    assert names(second.root / "spark") == sorted([*restored, "commits/12"])
    for name in restored:
        assert (second.root / "spark" / name).read_text() == (
            first.root / "spark" / name
        ).read_text()
    for folder in (first, second):
        folder.close()
        assert not folder.root.exists()
