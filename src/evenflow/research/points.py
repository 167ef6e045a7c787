"""The values that experiments exchange: points of a grid and the rows measured at them."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import pyarrow as pa

Scale = Literal["small", "paper"]
SCALES: tuple[Scale, ...] = ("small", "paper")
Scalar = bool | int | float | str
Point = Mapping[str, Scalar]
Row = Mapping[str, Scalar | None]
Rows: TypeAlias = pa.Table  # point columns and measured columns
