"""Values of rows that would stop, slow or swell a kernel; the answers are those of Spark 4.3."""

import time
import tracemalloc
from collections.abc import Callable

import pytest

from evenflow.sql.kernels import KERNELS, json_values, numbers

DEEP = [f"{'[' * depth}{']' * depth}" for depth in (400, 999, 1000, 1001, 100_000)]
POWERS = ("1e999999999", "1e-999999999", "-1E400", "1e99999999999999999999", "1e-30", "1e7")
MOST_BYTES, MOST_SECONDS = 60_000_000, 5.0


def test_json_is_read_as_deep_as_by_spark() -> None:
    found = [json_values.get_json_object(text, "$[0]") for text in DEEP]
    assert [text and len(text) for text in found] == [798, 1996, 1998, None, None]
    assert [json_values.array_length(text) for text in DEEP] == [1, 1, 1, None, None]


def test_long_numbers_in_json_are_malformed_as_in_spark() -> None:
    texts = [f"[{'9' * digits}]" for digits in (1000, 1001, 5000)]
    found = [json_values.get_json_object(text, "$[0]") for text in texts]
    assert [text and len(text) for text in found] == [1000, None, None]
    assert json_values.get_json_object("[1]", f"$[{'9' * 5000}]") is None


def test_numbers_with_huge_exponents_are_those_of_spark() -> None:
    texts = [f'{{"a":{power}}}' for power in POWERS]
    assert [json_values.get_json_object(text, "$.a") for text in texts] == [
        '"Infinity"', "0.0", '"-Infinity"', '"Infinity"', "1.0E-30", "1.0E7",
    ]  # fmt: skip
    assert [json_values.read_field(text, "a", "DECIMAL") for text in texts] == [
        None, None, None, None, f"0.{'0' * 29}1", "10000000",
    ]  # fmt: skip


def test_digits_after_the_point_are_those_of_spark() -> None:
    assert len(numbers.format_number(1.5, 341) or "") == 342
    assert len(numbers.format_number(1.5, 10**9) or "") == 342
    assert len(numbers.format_decimal("1.50", 10_000) or "") == 10_002
    with pytest.raises(ValueError, match="at most 10,000 digits"):
        numbers.format_decimal("1.50", 10**9)


@pytest.mark.parametrize(
    "act",
    [
        lambda: numbers.conv("9" * 1_000_000, 10, 16),
        lambda: numbers.conv("z" * 1_000_000, 36, -10),
        lambda: numbers.round_double(1.5, -(1 << 31), True),
        lambda: numbers.round_double(1e308, (1 << 31) - 1, False),
        lambda: numbers.read_double("9" * 1_000_000),
        lambda: json_values.object_keys('{"a":' * 100_000),
        lambda: json_values.get_json_object("[" + "1," * 100_000 + "1]", "$[5]"),
        lambda: KERNELS["spark_luhn"].function("7" * 1_000_000),
        lambda: KERNELS["spark_soundex"].function("a" * 1_000_000),
        lambda: KERNELS["spark_read_timestamp"].function("2026-01-01 1:1:1." + "1" * 10**6, True),
    ],
)
def test_no_value_takes_long_or_much_memory(act: Callable[[], object]) -> None:
    tracemalloc.start()
    began = time.thread_time()
    act()
    assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    tracemalloc.stop()
    assert time.thread_time() - began < MOST_SECONDS, "quadratic, or worse"
