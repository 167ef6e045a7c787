"""JSON schemas of the course of a run: batches over time, and whether it keeps up."""

from typing import Literal

from pydantic import Field

from evenflow.service.api_model import ApiModel


class BatchPoint(ApiModel):
    """One batch of the time charts, or the mean of several; loads are shares of a core.

    batch, at           of the last of `batches`
    seconds             from the end of the batch before to the end of this one
    rows_per_second     rows into queries: a row counts once for each query that reads it
    rows                read from the sources; this and what follows is None until Spark reports it
    input_per_second    rows read, by the time between two batches
    processed_per_second  rows read, by the time the batch took: what could be processed
    batch_seconds       from the trigger of the batch until Spark had committed it
    fixed_seconds       part of it that Spark needs before and after the batch itself
    busiest_seconds     CPU seconds of the busiest worker
    backlog_rows        left at the sources; None if no source says it
    lag_seconds         stream -> time between its watermark and the end of the batch
    """

    batch: int
    at: float
    seconds: float
    loads: list[float]
    active: int
    imbalance: float
    rows_per_second: float
    shipped_bytes: float
    batches: int = 1
    rows: float | None = None
    input_per_second: float | None = None
    processed_per_second: float | None = None
    batch_seconds: float | None = None
    fixed_seconds: float | None = None
    busiest_seconds: float = 0.0
    backlog_rows: float | None = None
    lag_seconds: dict[str, float] = Field(default_factory=dict)


class CourseInfo(ApiModel):
    """The course of the run between two times, oldest first.

    `first_at` and `last_at` are the times of the first and last batch that are known at all.
    """

    first_at: float | None
    last_at: float | None
    points: list[BatchPoint]


class WorkerPair(ApiModel):
    """Two workers and the correlation of their shares of the load."""

    first: int
    second: int
    value: float


class CorrelationMatrix(ApiModel):
    """Correlation of the workers' shares of the load, each two; None where a share is constant.

    Shares, as all loads rise and fall with the input. `workers` are the busiest 16; `together` and
    `apart` are the pairs of all active workers with the highest and the lowest value.
    """

    workers: list[int]
    batches: int
    values: list[list[float | None]]
    together: list[WorkerPair] = Field(default_factory=list)
    apart: list[WorkerPair] = Field(default_factory=list)


class KeepingUp(ApiModel):
    """Whether the run keeps up with its sources, and how one can tell."""

    verdict: Literal["keeping up", "at the limit", "falling behind", "not known"]
    message: str
