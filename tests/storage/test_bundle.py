"""Parts of bundles: only their bytes are read, and a changed byte is found."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from evenflow.errors import DamagedFileError, InputError
from evenflow.storage.bundle import Bundle, PartRef, pack, read_part, unpack
from evenflow.storage.file_store import FileStore


def written(store: FileStore) -> list[PartRef]:
    bundle = Bundle("state/a")
    refs = [bundle.add(pack(pa.table({"x": list(range(n, n + 1000))}))) for n in range(20)]
    bundle.write(store)
    return refs


def test_every_flipped_byte_of_a_part_is_found_and_named(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    ref = written(store)[3]
    path = tmp_path / ref.file
    content = path.read_bytes()
    for at in range(ref.offset, ref.offset + ref.length, 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(DamagedFileError, match=f"state/a is damaged: .*offset {ref.offset}"):
            read_part(store, ref)
    path.write_bytes(content)
    assert unpack(read_part(store, ref))["x"][0].as_py() == 3


def test_damage_is_an_input_error_for_users_and_a_storage_error_for_the_runtime() -> None:
    assert issubclass(DamagedFileError, InputError)
    assert issubclass(DamagedFileError, OSError)


@pytest.mark.parametrize("kept", [0, 1, 5000])
def test_a_truncated_file_is_found(tmp_path: Path, kept: int) -> None:
    store = FileStore(str(tmp_path))
    ref = written(store)[-1]
    path = tmp_path / ref.file
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DamagedFileError, match="it is too short; restore the checkpoint"):
        read_part(store, ref)


class CountingFile:
    """A file of a remote file system that counts what is read."""

    def __init__(self, path: str, counts: list[int]) -> None:
        self.file, self.counts, self.closed = Path(path).open("rb"), counts, False  # noqa: SIM115

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.counts.append(len(data))
        return data

    def close(self) -> None:
        self.closed = True
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class CountingHandler(fs.FSSpecHandler):  # type: ignore[misc]
    """A local folder in the place of a remote file system."""

    def __init__(self) -> None:
        super().__init__(None)
        self.counts: list[int] = []

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(CountingFile(path, self.counts), mode="r")


def test_a_part_on_a_remote_file_system_is_read_alone(tmp_path: Path) -> None:
    refs = written(FileStore(str(tmp_path)))
    store, handler = FileStore("mock:///x"), CountingHandler()
    store._filesystem, store._base_path = fs.PyFileSystem(handler), str(tmp_path)
    for number, ref in enumerate(refs):
        assert unpack(read_part(store, ref))["x"][0].as_py() == number
    assert sum(handler.counts) == sum(ref.length for ref in refs)
    (tmp_path / "state/a").write_bytes(b"short")
    with pytest.raises(DamagedFileError, match="mock:///x/state/a is damaged"):
        read_part(store, refs[1])
