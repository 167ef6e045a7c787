import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import hash_keys, jump_hash
from evenflow.model.hashing import jump_hash_reference


def plain(*parts: bytes | None) -> int:
    """XXH64 of a composite key by the reference library."""
    value = 42
    for part in parts:
        value = value if part is None else xxhash.xxh64_intdigest(part, seed=value)
    return value


def word(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


@given(st.lists(st.one_of(st.none(), st.text(max_size=100)), min_size=1))
def test_strings_are_hashed_as_by_the_reference(values: list[str | None]) -> None:
    expected = [plain(None if v is None else v.encode()) for v in values]
    assert hash_keys(pa.array(values, pa.string())).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_are_hashed_as_by_the_reference(values: list[int]) -> None:
    assert hash_keys(pa.array(values, pa.int64())).tolist() == [plain(word(v)) for v in values]


def test_composite_keys_are_folded_column_by_column() -> None:
    texts, numbers = pa.array(["a", None, "b" * 50]), pa.array([1, 2, None], pa.int64())
    expected = [plain(b"a", word(1)), plain(None, word(2)), plain(b"b" * 50, None)]
    assert hash_keys(texts, numbers).tolist() == expected
    struct = pa.StructArray.from_arrays([texts, numbers], ["text", "number"])
    assert hash_keys(struct).tolist() == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.int64())),
        (pa.array([1, 2], pa.uint64()), pa.array([1, 2], pa.int32())),
        (pa.array([0.0, float("nan")]), pa.array([-0.0, -float("nan")])),
        (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float64())),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"])),
        (pa.array(["a", "b"], pa.string_view()), pa.array(["a", "b"], pa.large_string())),
        (pa.array([1, 2], pa.timestamp("s")), pa.array([10**6, 2 * 10**6], pa.timestamp("us"))),
        (pa.array([True, False]), pa.array([1, 0])),
        (pa.chunked_array([["a"], ["b"]]), pa.array(["a", "b"])),
        (pa.array(["x", "a", "b"])[1:], pa.array(["a", "b"])),
        (pa.array([9, 1, 2], pa.decimal128(10, 0))[1:], pa.array([1, 2])),
    ],
    ids=str,
)
def test_a_key_hashes_alike_however_it_is_stored(one: pa.Array, other: pa.Array) -> None:
    assert hash_keys(one).tolist() == hash_keys(other).tolist()


def test_wide_decimals_and_binary_have_their_own_bytes() -> None:
    wide = pa.array([7, None], pa.decimal128(30, 0))
    assert hash_keys(wide).tolist() == [plain(word(7) + bytes(8)), 42]
    assert hash_keys(pa.array([b"ab"], pa.binary(2))).tolist() == [plain(b"ab")]


def test_the_hash_does_not_change_between_processes() -> None:
    program = (
        "import pyarrow as pa; from evenflow.model import hash_keys, jump_hash;"
        "h = hash_keys(pa.array(['a', 'b']), pa.array([1, 2])); print(h.tolist(), jump_hash(h, 7))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_lists_are_refused_as_keys() -> None:
    with pytest.raises(InputError, match="cannot be a key"):
        hash_keys(pa.array([[1]]))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 200))
def test_jump_kernel_equals_plain_version(hashes: list[int], workers: int) -> None:
    expected = [jump_hash_reference(h, workers) for h in hashes]
    assert jump_hash(np.array(hashes, dtype=np.uint64), workers).tolist() == expected


@given(st.integers(1, 64), st.integers(0, 2**32))
def test_adding_a_worker_moves_keys_only_to_it(workers: int, seed: int) -> None:
    hashes = hash_keys(np.random.default_rng(seed).integers(0, 2**40, 500))
    before, after = jump_hash(hashes, workers), jump_hash(hashes, workers + 1)
    assert set(after[before != after]) <= {workers}


def test_keys_spread_evenly() -> None:
    counts = np.bincount(jump_hash(hash_keys(np.arange(200_000)), 20), minlength=20)
    assert counts.max() < 10_500
    assert counts.min() > 9_500
