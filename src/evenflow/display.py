"""Text that people see: on a terminal, on the page, in answers of the API and in logs."""

import re

from evenflow.errors import shorten

# Shorter values are words such as `local` or numbers: replacing them would garble messages.
_MIN_SECRET_CHARACTERS = 6
# Controls of a terminal (C0, C1), line and paragraph separators, marks that reverse the direction
# of text, and halves of characters that UTF-8 cannot encode.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE_CHARACTER = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_LINES = re.compile(f"(?![\n\t])[{_UNSAFE}]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_secrets: dict[str, str] = {}  # value -> how it is shown


def hide_value(value: str, shown_as: str) -> None:
    """Never show a value again: `printable` replaces it in every text of this process.

    >>> hide_value("hunter2000", "${PASSWORD}")
    >>> printable("cannot log in with hunter2000")
    'cannot log in with ${PASSWORD}'
    """
    if len(value) >= _MIN_SECRET_CHARACTERS:
        _secrets[value] = shown_as


def printable(text: object, limit: int | None = None, *, lines: bool = False) -> str:
    r"""Return a text that is safe to show: no control characters, no hidden values, not too long.

    `lines` keeps line ends and tabs. The one function for everything that comes from outside: key
    values, names, SQL, error texts.

    >>> printable("red \x1b[31m\n\u202eabc"), printable("a\nb", lines=True), printable("x" * 99, 9)
    ('red \\x1b[31m\\n\\u202eabc', 'a\nb', 'xxx...xxx')
    """
    shown = str(text)
    for value in sorted(_secrets, key=len, reverse=True):
        shown = shown.replace(value, _secrets[value])
    if limit is not None:
        shown = shorten(shown, limit)
    return (_UNSAFE_IN_LINES if lines else _UNSAFE_CHARACTER).sub(_escape, shown)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _SHORT_ESCAPES.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
