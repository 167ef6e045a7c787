"""How a source is read: settings of a start, not of the checkpoint."""

from dataclasses import dataclass

from evenflow.model.codes import OnBadFile

DEFAULT_MAX_AHEAD = "1 day"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Settings of one source.

    max_ahead_us  how far a row's event time may be ahead of the batch's clock; None: any time
    on_bad_file   what to do about a file that cannot be read
    """

    max_ahead_us: int | None = None
    on_bad_file: OnBadFile = OnBadFile.STOP
