"""Parts of bundles: only their bytes are read, and a changed byte is found."""

from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from tests.support.memory_store import memory_store

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


def test_a_part_on_remote_storage_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    refs = written(store)
    counts: list[int] = []
    get_range = obstore.get_range

    def counting(*given: Any, start: int, end: int) -> Any:
        counts.append(end - start)
        return get_range(*given, start=start, end=end)

    monkeypatch.setattr(obstore, "get_range", counting)
    for number, ref in enumerate(refs):
        assert unpack(read_part(store, ref))["x"][0].as_py() == number
    assert counts == [ref.length for ref in refs]
    store.write("state/a", [b"short"])
    with pytest.raises(DamagedFileError, match="s3://memory/flow/state/a is damaged"):
        read_part(store, refs[1])
