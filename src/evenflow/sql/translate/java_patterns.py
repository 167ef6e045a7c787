"""Java's regular expressions, rewritten for RE2, which needs linear time for every text.

What RE2 does not have (lookahead, back references), and what the two read differently, is refused.
"""

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError, shorten

MAX_PATTERN_CHARACTERS = 1_000
_NEWLINES = r"\n\r\x{85}\x{2028}\x{2029}"
LINE_END = rf"\r\n|[{_NEWLINES}]"
# Java finds `$` at the end of a text and before a last line end. consumed: a match can have that
# line end too; cut: the caller cuts it off first; refused: neither is right.
End = Literal["consumed", "cut", "refused"]
_SPACES = r"\t\n\x0b\f\r "
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": _SPACES}
_CONTROLS = "tnrf"
_QUANTIFIER = re.compile(r"[*+?]|\{\d{1,3}(,\d{0,3})?\}")
_PUNCTUATION = set("\\.[]{}()*+?^$|-/:;,!\"#%&'<>=@_`~ ")


class _Reader:
    """Reads a pattern from left to right and writes the same for RE2."""

    def __init__(self, pattern: str, *, end: End) -> None:
        self.pattern, self.at = pattern, 0
        self.end = end
        self.finds_newline = False
        self.has_end = False
        self.ignores_case = pattern.startswith("(?i)")
        if self.ignores_case:
            self.at = 4
        self.groups = 0
        self.written: list[str] = []

    def refuse(self, what: str) -> InputError:
        shown = shorten(self.pattern, 60)
        return InputError(f"the pattern {shown!r} has {what}")

    def read(self) -> str:
        open_groups = 0
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            self.at += 1
            if character == "\\":
                self.written.append(self._escape())
            elif character == "[":
                self.written.append(self._char_class())
            elif character == "(":
                self._open_group()
                open_groups += 1
                continue
            elif character == ")":
                open_groups -= 1
                self.written.append(")")
            elif character == ".":
                self.written.append(f"[^{_NEWLINES}]")
            elif character == "$":
                self._end(open_groups)
                continue
            elif character in "^|":
                self.written.append(character)
                continue
            elif character in "*+?{":
                raise self.refuse(f"{character!r} without anything before it")
            else:
                self.written.append(self._letter(character))
            self._quantifier()
        return "".join(self.written)

    def _letter(self, character: str) -> str:
        if self.ignores_case and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        if self.ignores_case and not character.isascii():
            raise self.refuse("(?i) and letters beyond a to z; leave out (?i)")
        return re.escape(character) if character.isascii() else character

    def _open_group(self) -> None:
        if self.pattern.startswith("?:", self.at):
            self.at += 2
            self.written.append("(?:")
        elif self.pattern.startswith("?", self.at):
            raise self.refuse("a group with (?, such as lookahead; only (...) and (?:...) can be "
                              "used, and (?i) at the start")  # fmt: skip
        else:
            self.groups += 1
            self.written.append("(")

    def _end(self, open_groups: int) -> None:
        if self.end == "refused":
            raise self.refuse("$, which Java also finds before a last line end; write \\\\z")
        if self.at < len(self.pattern) or open_groups:
            raise self.refuse("$ before the end; write \\\\z")
        if self.end == "cut" and (self.finds_newline or "|" in self.pattern):
            raise self.refuse("$ after what can find a line end; write \\\\z")
        self.has_end = True
        self.written.append(f"(?:{LINE_END})?\\z" if self.end == "consumed" else "\\z")

    def _escape(self) -> str:
        if self.at >= len(self.pattern):
            raise self.refuse("a backslash at its end")
        character = self.pattern[self.at]
        self.at += 1
        self.finds_newline |= character in "sDWSnr"
        if character in "dws":
            return f"[{_CLASSES[character]}]"
        if character in "DWS":
            return f"[^{_CLASSES[character.lower()]}]"
        if character in _CONTROLS or character in "zA":
            return f"\\{character}"
        if character in _PUNCTUATION:
            return re.escape(character)
        raise self.refuse(f"\\{character}, on which Java and RE2 differ; write a class such as "
                          "[a-z]")  # fmt: skip

    def _char_class(self) -> str:
        items: list[str] = []
        negated = ""
        if self.pattern.startswith("^", self.at):
            self.at, negated = self.at + 1, "^"
            self.finds_newline = True
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise self.refuse("[ without ]")
            if self.pattern[self.at] == "]" and not first:
                self.at += 1
                return f"[{negated}{''.join(items)}]"
            items.append(self._class_item())
            first = False

    def _class_item(self) -> str:
        low = self._class_character()
        if len(low) > 1 and low in _CLASSES.values():
            return low
        if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
            self.at += 1
            high = self._class_character()
            if len(high) != 1 or ord(high) < ord(low):
                raise self.refuse("a range in [...] that cannot be read")
            return self._range(low, high)
        return self._range(low, low)

    def _range(self, low: str, high: str) -> str:
        self.finds_newline |= any(low <= newline <= high for newline in "\n\r\x85\u2028\u2029")

        def plain(character: str) -> str:
            return re.escape(character) if character in "\\]^-[" else character

        text = plain(low) if low == high else f"{plain(low)}-{plain(high)}"
        if self.ignores_case:
            for start, end in (("a", "z"), ("A", "Z")):
                a, b = max(low, start), min(high, end)
                if a <= b:
                    text += f"{a.swapcase()}-{b.swapcase()}"
        return text

    def _class_character(self) -> str:
        character = self.pattern[self.at]
        self.at += 1
        if character == "[" or self.pattern.startswith("&&", self.at - 1):
            raise self.refuse("[ or && inside [...]; write \\\\[ or one class")
        if character != "\\":
            return character
        if self.at >= len(self.pattern):
            raise self.refuse("a backslash at its end")
        escaped = self.pattern[self.at]
        self.at += 1
        self.finds_newline |= escaped == "s"
        if escaped in _CLASSES:
            return _CLASSES[escaped]
        if escaped in _CONTROLS:
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}[escaped]
        if escaped not in _PUNCTUATION:
            raise self.refuse(f"\\{escaped} inside [...]")
        return escaped

    def _quantifier(self) -> None:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if found is None:
            if self.pattern.startswith("{", self.at):
                raise self.refuse("{ that is no number of times; write \\\\{")
            return
        self.written.append(found[0])
        self.at = found.end()
        if self.pattern.startswith("?", self.at):
            self.written.append("?")
            self.at += 1
        if self.pattern.startswith(("+", "*", "{", "?"), self.at):
            raise self.refuse("two quantifiers in a row, such as ++; leave out the second")


class JavaPattern:
    """A pattern for RE2 with its number of groups."""

    def __init__(self, pattern: str, *, end: End) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise InputError(f"a pattern has more than {MAX_PATTERN_CHARACTERS} characters")
        reader = _Reader(pattern, end=end)
        self.re2, self.groups = reader.read(), reader.groups
        self.has_end = reader.has_end
        try:
            pc.match_substring_regex(pa.array([""]), self.re2)
        except pa.ArrowInvalid as error:
            why = shorten(str(error).splitlines()[0], 80)
            raise reader.refuse(f"a mistake ({why}); correct it") from None
        python = self.re2.replace("\\z", r"\Z")
        python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), python)
        self.matches_empty = re._parser.parse(python).getwidth()[0] == 0
