"""Spark's hashes: Murmur3 (32 bits) and xxHash (64 bits) with its seeds, SHA-2, CRC 32."""

import hashlib
import math
import struct
import zlib

_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)

HLL_BITS, HLL_THRESHOLD = 9, 400  # for a relative standard deviation of 5 %


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _rotate(value: int, by: int, bits: int) -> int:
    mask = (1 << bits) - 1
    return ((value << by) | (value >> (bits - by))) & mask


def _mix_key(key: int) -> int:
    key = key * 0xCC9E2D51 & _M32
    return _rotate(key, 15, 32) * 0x1B873593 & _M32


def _mix(state: int, key: int) -> int:
    return (_rotate(state ^ _mix_key(key), 13, 32) * 5 + 0xE6546B64) & _M32


def _finish(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * 0x85EBCA6B & _M32
    state = (state ^ state >> 13) * 0xC2B2AE35 & _M32
    return _signed(state ^ state >> 16, 32)


def murmur3_int(value: int | None, seed: int) -> int:
    """Hash 4 bytes."""
    return seed if value is None else _finish(_mix(seed & _M32, value & _M32), 4)


def murmur3_long(value: int | None, seed: int) -> int:
    """Hash 8 bytes."""
    if value is None:
        return seed
    low = _mix(seed & _M32, value & _M32)
    return _finish(_mix(low, value >> 32 & _M32), 8)


def murmur3_bytes(value: bytes | None, seed: int) -> int:
    """Hash bytes; as in Spark, each byte of an incomplete last word is mixed on its own."""
    if value is None:
        return seed
    state, whole = seed & _M32, len(value) // 4
    for (word,) in struct.iter_unpack("<I", value[: whole * 4]):
        state = _mix(state, word)
    for byte in value[whole * 4 :]:
        state = _mix(state, _signed(byte, 8) & _M32)
    return _finish(state, len(value))


def murmur3_text(value: str | None, seed: int) -> int:
    """Hash the bytes of a text."""
    return seed if value is None else murmur3_bytes(value.encode(), seed)


def _xx_finish(state: int) -> int:
    state = (state ^ state >> 33) * _P2 & _M64
    state = (state ^ state >> 29) * _P3 & _M64
    return _signed(state ^ state >> 32, 64)


def _xx_round(state: int, word: int) -> int:
    return _rotate((state + word * _P2) & _M64, 31, 64) * _P1 & _M64


def _xx_word(state: int, word: int) -> int:
    return (_rotate(state ^ _xx_round(0, word), 27, 64) * _P1 + _P4) & _M64


def _xx_half(state: int, word: int) -> int:
    return (_rotate(state ^ word * _P1 & _M64, 23, 64) * _P2 + _P3) & _M64


def xxhash64_int(value: int | None, seed: int) -> int:
    """Hash 4 bytes."""
    if value is None:
        return seed
    return _xx_finish(_xx_half((seed + _P5 + 4) & _M64, value & _M32))


def xxhash64_long(value: int | None, seed: int) -> int:
    """Hash 8 bytes."""
    if value is None:
        return seed
    return _xx_finish(_xx_word((seed + _P5 + 8) & _M64, value & _M64))


def xxhash64_bytes(value: bytes | None, seed: int) -> int:
    """Hash bytes."""
    if value is None:
        return seed
    at, size = 0, len(value)
    state = (seed + _P5) & _M64
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _M64, (seed + _P2) & _M64, seed & _M64, (seed - _P1) & _M64]
        while at <= size - 32:
            words = struct.unpack_from("<4Q", value, at)
            lanes = [_xx_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        turns = (1, 7, 12, 18)
        state = sum(_rotate(v, by, 64) for v, by in zip(lanes, turns, strict=True)) & _M64
        for lane in lanes:
            state = ((state ^ _xx_round(0, lane)) * _P1 + _P4) & _M64
    state = (state + size) & _M64
    while at <= size - 8:
        state = _xx_word(state, struct.unpack_from("<Q", value, at)[0])
        at += 8
    if at <= size - 4:
        state = _xx_half(state, struct.unpack_from("<I", value, at)[0])
        at += 4
    for byte in value[at:]:
        state = _rotate(state ^ byte * _P5 & _M64, 11, 64) * _P1 & _M64
    return _xx_finish(state)


def xxhash64_text(value: str | None, seed: int) -> int:
    """Hash the bytes of a text."""
    return seed if value is None else xxhash64_bytes(value.encode(), seed)


def double_bits(value: float | None) -> int | None:
    """Return the bits of a DOUBLE; -0.0 has those of 0.0, and there is one NaN."""
    if value is None:
        return None
    number = float("nan") if value != value else value + 0.0  # noqa: PLR0124 - NaN
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def float_bits(value: float | None) -> int | None:
    """Return the bits of a FLOAT; -0.0 has those of 0.0, and there is one NaN."""
    if value is None:
        return None
    number = float("nan") if value != value else value + 0.0  # noqa: PLR0124 - NaN
    return int(struct.unpack("<i", struct.pack("<f", number))[0])


def sha2(value: bytes | None, bits: int | None) -> str | None:
    """Return a SHA-2 hash in hexadecimal digits; 0 means 256 bits."""
    if value is None or bits not in (0, 224, 256, 384, 512):
        return None
    return hashlib.new(f"sha{bits or 256}", value).hexdigest()


def crc32(value: bytes | None) -> int | None:
    """Return the checksum."""
    return None if value is None else zlib.crc32(value)


def hll_pair(value: int | None) -> int | None:
    """Return the register and the rank of a hash, as register * 64 + rank.

    HyperLogLog (Flajolet et al. 2007) with 2^9 registers: the first 9 bits of the hash are the
    register, the rank is the position of the first 1 in the rest.
    """
    if value is None:
        return None
    bits = value & _M64
    rest = (bits << HLL_BITS) & _M64 | 1 << (HLL_BITS - 1)
    return (bits >> (64 - HLL_BITS)) * 64 + 65 - rest.bit_length()


def hll_estimate(pairs: list[int] | None) -> int:
    """Estimate how many different hashes there were, from their pairs.

    Linear counting as in HyperLogLog++ (Heule et al. 2013, section 5.2) up to its threshold, then
    the raw estimate. Spark also corrects the bias between 2.5 and 5 times the registers.
    """
    ranks: dict[int, int] = {}
    for pair in pairs or ():
        register, rank = divmod(pair, 64)
        ranks[register] = max(rank, ranks.get(register, 0))
    size = 1 << HLL_BITS
    empty = size - len(ranks)
    inverse = empty + math.fsum(2.0**-rank for rank in ranks.values())
    raw = 0.7213 / (1 + 1.079 / size) * size * size / inverse
    if empty:
        linear = size * math.log(size / empty)
        if linear <= HLL_THRESHOLD or raw <= 2.5 * size:
            return math.floor(linear + 0.5)
    return math.floor(raw + 0.5)
