"""Numbers as texts and back, as Java writes and reads them; exact decimal rounding."""

import math
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np

_EXACT = Context(prec=800)
_MAX_PLACES = 340  # that Java's formats of a DOUBLE write, and more than its shortest digits have
_MAX_DECIMAL_PLACES = 10_000
_TRIMMED = "".join(map(chr, range(33)))
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_WORDS = {
    "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf,
    "-inf": -math.inf, "-infinity": -math.inf, "nan": math.nan,
}  # fmt: skip


def _java_text(text: str) -> str:
    """Turn the shortest digits of Python into Java's form.

    >>> _java_text("1e-05"), _java_text("12345678.9"), _java_text("0.001")
    ('1.0E-5', '1.23456789E7', '0.001')
    """
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    power = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits)) - 1
    digits = digits.rstrip("0") or "0"
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        digits = digits.ljust(power + 1, "0")
        return f"{sign}{digits[: power + 1]}.{digits[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def double_text(value: float | None) -> str | None:
    """Write a DOUBLE: the shortest digits that give it back."""
    if value is None:
        return None
    if not math.isfinite(value):
        return _word(value)
    text = repr(value)
    # With one digit Java takes the second one that is closest: 4.9E-324.
    return _java_text(text if _digits(text) > 1 else f"{value:.1e}")


def float_text(value: float | None) -> str | None:
    """Write a FLOAT: the shortest digits that give it back."""
    if value is None:
        return None
    if not math.isfinite(value):
        return _word(value)
    number = np.float32(value)
    text = str(number)
    return _java_text(text if _digits(text) > 1 else np.format_float_scientific(number, 1, False))


def _digits(text: str) -> int:
    return len(text.partition("e")[0].replace(".", "").replace("-", "").strip("0"))


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def read_double(text: str | None) -> float | None:
    """Read a DOUBLE as Java does; None if the text is not one."""
    if text is None:
        return None
    plain = text.strip(_TRIMMED)
    if _NUMBER.fullmatch(plain):
        return float(plain.rstrip("dDfF"))
    return _WORDS.get(plain.lower())


def format_number(value: float | None, digits: int | None) -> str | None:
    """Write with commas and so many digits after the point, rounded half to even.

    Java rounds the exact value, but writes zeros after the shortest digits.

    >>> format_number(1234.1, 20), format_number(0.15, 1)
    ('1,234.10000000000000000000', '0.1')
    """
    if value is None or digits is None or digits < 0:
        return None
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    digits = min(digits, _MAX_PLACES)
    short = Decimal(repr(value))
    is_short = -int(short.as_tuple().exponent) <= digits
    exact = short if is_short else Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN, _EXACT)
    return f"{rounded:,.{digits}f}"


def format_decimal(text: str | None, digits: int | None) -> str | None:
    """Write an exact number with commas."""
    if text is None or digits is None or digits < 0:
        return None
    if digits > _MAX_DECIMAL_PLACES:
        raise ValueError(f"format_number writes at most {_MAX_DECIMAL_PLACES:,} digits")
    places = min(digits, _MAX_PLACES)  # a DECIMAL has at most 38
    rounded = Decimal(text).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, _EXACT)
    return f"{rounded:,.{places}f}" + "0" * (digits - places)


def format_float(form: str, value: float | None) -> str | None:
    """Write one %f, %e or %g of format_string; Java rounds half up."""
    found = re.fullmatch(r"([-+0, ]*)([0-9]*)\.?([0-9]*)", form)
    if found is None:
        return None
    flags, width, digits = found.groups()
    places = int(digits or 6)
    if value is None:
        text = "null"[:places]
        return text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))
    if math.isfinite(value):
        shown = Decimal(repr(abs(value))).quantize(
            Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT
        )
        text = f"{shown:,f}" if "," in flags else f"{shown:f}"
    else:
        text, flags = _word(abs(value)), flags.replace("0", "")
    negative = math.copysign(1, value) < 0 and not math.isnan(value)
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    size = int(width or 0)
    if "-" in flags:
        return (sign + text).ljust(size)
    if "0" in flags:
        return sign + text.rjust(size - len(sign), "0")
    return (sign + text).rjust(size)


def round_double(value: float | None, digits: int | None, is_even: bool | None) -> float | None:
    """Round the shortest decimal digits, half up or half to even."""
    if value is None or digits is None:
        return None
    if not math.isfinite(value) or digits > _MAX_PLACES + 1:
        return value
    if digits < -_MAX_PLACES:
        return 0.0
    mode = ROUND_HALF_EVEN if is_even else ROUND_HALF_UP
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), mode, _EXACT)
    return float(rounded) + 0.0  # a decimal number has no -0


def divide_decimal(left: str | None, right: str | None, scale: int, precision: int) -> str | None:
    """Divide as Spark does: half up to 38 digits, then to the scale; None if it does not fit.

    >>> divide_decimal("1", "3", 6, 12)
    '0.333333'
    """
    if left is None or right is None:
        return None
    a, b = Decimal(left), Decimal(right)
    if not b:
        return None
    whole, rest = divmod(abs(int(a.scaleb(76, _EXACT))), abs(int(b.scaleb(38, _EXACT))))
    exact = Decimal(whole + (2 * rest >= abs(int(b.scaleb(38, _EXACT))))).scaleb(-38, _EXACT)
    result = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if len(result.as_tuple().digits) > precision:
        return None
    return f"{-result if (a < 0) != (b < 0) else result:f}"


def conv(text: str | None, base: int | None, to_base: int | None) -> str | None:
    """Write a number in another base, as an unsigned number of 64 bits."""
    if text is None or base is None or to_base is None:
        return None
    if not 2 <= base <= 36 or not 2 <= abs(to_base) <= 36:
        return None
    plain = text.strip(" ")
    if not plain:
        return None
    negative = plain.startswith("-")
    value = 0
    for character in plain[1:] if negative else plain:
        digit = "0123456789abcdefghijklmnopqrstuvwxyz".find(character.lower())
        if not 0 <= digit < base:
            break
        value = value * base + digit
        if value >= 1 << 64:
            return None
    if negative and to_base > 0:
        value = -value % (1 << 64) if value < 1 << 63 else (1 << 64) - 1
    sign = ""
    if to_base < 0:
        value = -value if negative else value
        if not negative and value >= 1 << 63:
            value -= 1 << 64
        sign, value = ("-", -value) if value < 0 else ("", value)
    digits = ""
    while value or not digits:
        value, rest = divmod(value, abs(to_base))
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[rest] + digits
    return sign + digits


def hypot(left: float | None, right: float | None) -> float | None:
    """Return the length of a vector."""
    return None if left is None or right is None else math.hypot(left, right)


def log1p(value: float | None) -> float | None:
    """Return ln(1 + x)."""
    if value is None or value <= -1:
        return None
    return math.log1p(value)


def expm1(value: float | None) -> float | None:
    """Return exp(x) - 1."""
    if value is None:
        return None
    return float(np.expm1(np.float64(value))) if value < 709 else float("inf")
