"""How long results are kept."""

import re
from dataclasses import dataclass

from evenflow.durations import duration_us
from evenflow.errors import InputError

_BATCHES = re.compile(r"(\d+)\s*batch(es)?")


@dataclass(frozen=True, slots=True)
class Retention:
    """Keep the results of the last `batches`, or of the last `seconds`; None: of all.

    >>> Retention.parse("1000 batches"), Retention.parse("7 days")
    (Retention(batches=1000, seconds=None), Retention(batches=None, seconds=604800.0))
    """

    batches: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Retention":
        """Read `1000 batches` or a duration."""
        if found := _BATCHES.fullmatch(text.strip()):
            retention = cls(batches=int(found[1]))
        else:
            try:
                retention = cls(seconds=duration_us(text, "keep") / 1e6)
            except InputError:
                raise InputError(
                    f"keep {text!r} is neither a number of batches nor a duration; "
                    "write for example '1000 batches' or '7 days'"
                ) from None
        if not (retention.batches or retention.seconds):
            raise InputError(f"keep {text!r} keeps nothing; write at least '1 batch' or '1 second'")
        return retention
