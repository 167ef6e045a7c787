"""Exact copies of Spark's functions for which DuckDB has no equal: Python over single values.

The engine registers them under the names of `KERNELS`; only `evenflow.sql.translate` calls them. A
kernel returns None for NULL arguments and for texts that it cannot read; it never raises.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from evenflow.sql.kernels import hashes, json_values, moments, numbers, texts


class Kernel(NamedTuple):
    """A function of single values with the DuckDB types of its parameters and its result."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    result: str


_T, _I, _L, _D, _B = "VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "BLOB"
KERNELS: dict[str, Kernel] = {
    "unicode_upper": Kernel(texts.upper, (_T,), _T),
    "unicode_lower": Kernel(texts.lower, (_T,), _T),
    "spark_reverse": Kernel(texts.reverse, (_T,), _T),
    "spark_initcap": Kernel(texts.initcap, (_T,), _T),
    "spark_translate": Kernel(texts.translate, (_T, _T, _T), _T),
    "spark_substring_index": Kernel(texts.substring_index, (_T, _T, _I), _T),
    "spark_soundex": Kernel(texts.soundex, (_T,), _T),
    "spark_luhn": Kernel(texts.luhn, (_T,), "BOOLEAN"),
    "spark_url_encode": Kernel(texts.url_encode, (_T,), _T),
    "spark_url_decode": Kernel(texts.url_decode, (_T,), _T),
    "spark_parse_url": Kernel(texts.parse_url, (_T, _T), _T),
    "spark_url_query_value": Kernel(texts.url_query_value, (_T, _T, _T), _T),
    "spark_mask": Kernel(texts.mask, (_T, _T, _T, _T, _T), _T),
    "spark_unbase64": Kernel(texts.unbase64, (_T,), _B),
    "spark_unhex": Kernel(texts.unhex, (_T,), _B),
    "spark_double_text": Kernel(numbers.double_text, (_D,), _T),
    "spark_float_text": Kernel(numbers.float_text, ("FLOAT",), _T),
    "spark_read_double": Kernel(numbers.read_double, (_T,), _D),
    "spark_format_number": Kernel(numbers.format_number, (_D, _I), _T),
    "spark_format_decimal": Kernel(numbers.format_decimal, (_T, _I), _T),
    "spark_format_float": Kernel(numbers.format_float, (_T, _D), _T),
    "spark_round_double": Kernel(numbers.round_double, (_D, _I, "BOOLEAN"), _D),
    "spark_divide_decimal": Kernel(numbers.divide_decimal, (_T, _T, _I, _I), _T),
    "spark_conv": Kernel(numbers.conv, (_T, _I, _I), _T),
    "spark_hypot": Kernel(numbers.hypot, (_D, _D), _D),
    "spark_log1p": Kernel(numbers.log1p, (_D,), _D),
    "spark_expm1": Kernel(numbers.expm1, (_D,), _D),
    "spark_hash_int": Kernel(hashes.murmur3_int, (_L, _I), _I),
    "spark_hash_long": Kernel(hashes.murmur3_long, (_L, _I), _I),
    "spark_hash_text": Kernel(hashes.murmur3_text, (_T, _I), _I),
    "spark_hash_bytes": Kernel(hashes.murmur3_bytes, (_B, _I), _I),
    "spark_xxhash_int": Kernel(hashes.xxhash64_int, (_L, _L), _L),
    "spark_xxhash_long": Kernel(hashes.xxhash64_long, (_L, _L), _L),
    "spark_xxhash_text": Kernel(hashes.xxhash64_text, (_T, _L), _L),
    "spark_xxhash_bytes": Kernel(hashes.xxhash64_bytes, (_B, _L), _L),
    "spark_double_bits": Kernel(hashes.double_bits, (_D,), _L),
    "spark_float_bits": Kernel(hashes.float_bits, ("FLOAT",), _L),
    "spark_hll_pair": Kernel(hashes.hll_pair, (_L,), _I),
    "spark_hll_estimate": Kernel(hashes.hll_estimate, ("INTEGER[]",), _L),
    "spark_sha2": Kernel(hashes.sha2, (_B, _I), _T),
    "spark_crc32": Kernel(hashes.crc32, (_B,), _L),
    "spark_read_timestamp": Kernel(moments.read_timestamp, (_T, "BOOLEAN"), _L),
    "spark_months_between": Kernel(moments.months_between, (_L, _L, "BOOLEAN"), _D),
    "spark_from_utc": Kernel(moments.from_utc, (_L, _T), _L),
    "spark_to_utc": Kernel(moments.to_utc, (_L, _T), _L),
    "spark_json_object": Kernel(json_values.get_json_object, (_T, _T), _T),
    "spark_json_length": Kernel(json_values.array_length, (_T,), _I),
    "spark_json_keys": Kernel(json_values.object_keys, (_T,), "VARCHAR[]"),
    "spark_json_field": Kernel(json_values.read_field, (_T, _T, _T), _T),
    "spark_json_quote": Kernel(json_values.quote, (_T,), _T),
}
__all__ = ["KERNELS", "Kernel"]
