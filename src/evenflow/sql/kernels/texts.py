"""Functions of strings, by code point as in Spark."""

import base64
import re
import string
from urllib.parse import quote_plus, unquote_to_bytes

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/")
_SOUNDEX = dict(zip(string.ascii_uppercase, "01230127022455012623017202", strict=True))


def upper(text: str | None) -> str | None:
    """Write in capital letters, by Unicode's rules."""
    return None if text is None else text.upper()


def lower(text: str | None) -> str | None:
    """Write in small letters, by Unicode's rules."""
    return None if text is None else text.lower()


def reverse(text: str | None) -> str | None:
    """Reverse the code points."""
    return None if text is None else text[::-1]


def initcap(text: str | None) -> str | None:
    """Write the first letter of each word in title case, the rest in lower case.

    >>> initcap("hELLO wORLD")
    'Hello World'
    """
    if text is None:
        return None
    words = text.split(" ")  # a lower case can have more characters
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in words)


def translate(text: str | None, matching: str | None, replacing: str | None) -> str | None:
    """Replace characters one by one; those without a partner are removed.

    >>> translate("AaBbCc", "abc", "12")
    'A1B2C'
    """
    if text is None or matching is None or replacing is None:
        return None
    table: dict[int, str | None] = {}
    for at, character in enumerate(matching):
        table.setdefault(ord(character), replacing[at] if at < len(replacing) else None)
    return text.translate(table)


def substring_index(text: str | None, delimiter: str | None, count: int | None) -> str | None:
    """Return what is before the count-th delimiter, or after it from the end.

    >>> substring_index("www.apache.org", ".", 2), substring_index("www.apache.org", ".", -1)
    ('www.apache', 'org')
    """
    if text is None or delimiter is None or count is None:
        return None
    if not delimiter or count == 0:
        return ""
    if count > 0:
        at = -1
        for _ in range(count):
            at = text.find(delimiter, at + 1)
            if at < 0:
                return text
        return text[:at]
    end = len(text)
    at = len(text)
    for _ in range(-count):
        at = text.rfind(delimiter, 0, end + len(delimiter) - 1)
        if at < 0:
            return text
        end = at
    return text[at + len(delimiter) :]


def soundex(text: str | None) -> str | None:
    """Return the Soundex code of an English word.

    >>> soundex("Miller")
    'M460'
    """
    if not text:
        return text
    first = text[0].upper() if text[0].isascii() else text[0]
    if first not in _SOUNDEX:
        return text
    code, last = [first], _SOUNDEX[first]
    for letter in text[1:]:
        digit = _SOUNDEX.get(letter.upper() if letter.isascii() else letter)
        if digit is None:
            last = "0"
        elif digit == "7":
            continue
        else:
            if digit not in ("0", last):
                code.append(digit)
                if len(code) == 4:
                    break
            last = digit
    return "".join(code).ljust(4, "0")


def luhn(text: str | None) -> bool | None:
    """Tell whether a text is a number with a valid Luhn check digit."""
    if text is None:
        return None
    if not text or not (text.isascii() and text.isdigit()):
        return False
    total = 0
    for at, digit in enumerate(reversed(text)):
        value = int(digit) * (1 + at % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def url_encode(text: str | None) -> str | None:
    """Encode as application/x-www-form-urlencoded."""
    return None if text is None else quote_plus(text, safe="*").replace("~", "%7E")


def url_decode(text: str | None) -> str | None:
    """Decode application/x-www-form-urlencoded; None if it is not."""
    if text is None:
        return None
    plain = text.replace("+", " ")
    rest = plain.split("%")[1:]
    if any(len(part) < 2 or not set(part[:2]) <= set(string.hexdigits) for part in rest):
        return None
    return unquote_to_bytes(plain).decode("utf-8", errors="replace")


def mask(
    text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None
) -> str | None:
    """Replace letters and digits by one character each; None keeps the character."""
    if text is None:
        return None

    def masked(character: str) -> str:
        if character.isupper():
            return upper or character
        if character.islower():
            return lower or character
        return (digit if character.isdecimal() else other) or character

    return "".join(map(masked, text))


_URI = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_URI_TEXT = re.compile(r"(?:[A-Za-z0-9_.~!*'();:@&=+$,/?#\[\]-]|%[0-9A-Fa-f]{2}|[^\x00-\x7f])*")
_HOST = re.compile(
    r"(?:([^@]*)@)?([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
)
NO_URL = "\x01"  # what `parse_url` returns of a text that is no URL
PATTERN_KEY = "\x02"  # what `url_query_value` returns for a key that is a pattern
_PATTERN = frozenset("^$*+?()[]{}|\\")
_ANY = "[^\n\r\x85\u2028\u2029]"  # what `.` is to Java


def url_query_value(text: str | None, part: str | None, key: str | None) -> str | None:
    """Return the value of a key of a URL's query; as in Spark, a dot of the key is any character.

    >>> url_query_value("https://a.de/x?k=1&r=2#top", "QUERY", "r")
    '2'
    """
    if key is None or part != "QUERY":  # then Spark does not read the URL
        return None
    query = parse_url(text, part)
    if query is None or query == NO_URL:
        return query
    if _PATTERN & set(key):
        return PATTERN_KEY
    pattern = _ANY.join(map(re.escape, key.split(".")))
    value = re.search(f"(?:&|^){pattern}=([^&]*)", query)
    return value[1] if value is not None else None


def parse_url(text: str | None, part: str | None) -> str | None:
    """Return a part of a URL.

    >>> parse_url("https://a.de/x?k=1&r=2#top", "HOST")
    'a.de'
    """
    if text is None or part is None:
        return None
    if _URI_TEXT.fullmatch(text) is None or (found := _URI.fullmatch(text)) is None:
        return NO_URL
    scheme, authority, path, query, fragment = found.groups()
    if scheme and not authority and not path.startswith("/"):
        path = query = None  # of no hierarchy, such as mailto:a@b.de
    server = _HOST.fullmatch(authority) if authority else None
    file = path if query is None or path is None else f"{path}?{query}"
    parts = {
        "HOST": server[2] if server else None, "PATH": path, "QUERY": query, "REF": fragment,
        "PROTOCOL": scheme, "FILE": file, "AUTHORITY": authority or None,
        "USERINFO": server[1] if server else None,
    }  # fmt: skip
    return parts.get(part)


def unbase64(text: str | None) -> bytes | None:
    """Decode base 64 as Java's decoder of MIME does: other characters are ignored.

    None if the last four characters are not whole, or more follows after the padding.
    """
    if text is None:
        return None
    body, equals, rest = text.partition("=")
    plain = "".join(character for character in body if character in _BASE64)
    if any(character in _BASE64 for character in rest) or len(plain) % 4 == 1:
        return None
    missing = -len(plain) % 4
    if equals and (missing == 0 or (missing == 2 and not rest.startswith("="))):
        return None
    return base64.b64decode(plain + "=" * missing)


def unhex(text: str | None) -> bytes | None:
    """Decode hexadecimal digits; None if there are others."""
    if text is None or not set(text) <= set(string.hexdigits):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")
