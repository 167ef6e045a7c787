"""Tokens: who sends a request, and what it may do."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evenflow.display import hide_value
from evenflow.errors import InputError
from evenflow.names import check_name

MIN_TOKEN_LENGTH = 16
_MAX_FILE_BYTES = 4096


class Role(StrEnum):
    """What a token may do; each role includes those before it."""

    READ = "read"  # look at the run
    SUBMIT = "submit"  # submit and cancel queries, begin and end subscriptions
    OPERATE = "operate"  # pin, resume, drain, activate, roll back

    def includes(self, other: "Role") -> bool:
        """Tell whether this role may do what another one may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request; `tenant` None is not limited to one."""

    name: str
    role: Role
    tenant: str | None = None


# Without tokens everybody on this machine may do everything.
LOCAL_CALLER = Caller("local", Role.OPERATE)


@dataclass(frozen=True, slots=True)
class Token:
    """A secret, and the caller who has it."""

    caller: Caller
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        check_name(self.caller.name, "token")
        if len(self.secret) < MIN_TOKEN_LENGTH:
            raise InputError(
                f"token {self.caller.name!r} needs at least {MIN_TOKEN_LENGTH} characters, "
                f"got {len(self.secret)}"
            )
        if not (self.secret.isascii() and self.secret.isprintable()) or " " in self.secret:
            raise InputError(
                f"token {self.caller.name!r} has a character that a header cannot hold; use "
                "letters, digits and punctuation"
            )
        hide_value(self.secret, f"<token {self.caller.name}>")


class TokenBook:
    """All tokens of a service; keeps digests, not secrets."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._callers: dict[bytes, Caller] = {}
        for token in tokens:
            other = self._callers.setdefault(_digest(token.secret), token.caller)
            if other is not token.caller:
                raise InputError(
                    f"tokens {other.name!r} and {token.caller.name!r} are the same; change one"
                )

    def __bool__(self) -> bool:
        return bool(self._callers)

    def find(self, secret: str) -> Caller | None:
        """Return the caller of a token; takes the same time for right and wrong ones."""
        given, found = _digest(secret), None
        for digest, caller in self._callers.items():
            if hmac.compare_digest(digest, given):
                found = caller
        return found


def token_from_variable(caller: Caller, variable: str) -> Token:
    """Read a token from the environment."""
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise InputError(
            f"token {caller.name!r}: environment variable {variable} is not set; set it to the "
            "token"
        )
    return Token(caller, secret)


def token_from_file(caller: Caller, path: Path) -> Token:
    """Read a token from a file that nobody but its owner can read."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(_MAX_FILE_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"token {caller.name!r}: cannot read {path}: {reason}") from None
    if mode & 0o077:
        raise InputError(
            f"token {caller.name!r}: others can read {path} (mode {mode:04o}); chmod 600 it"
        )
    return Token(caller, secret)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
