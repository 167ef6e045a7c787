"""Bundled datasets are bounded, match their schemas and are the same every time."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evenflow.datasets import Dataset
from evenflow.datasets.flights import Flights
from evenflow.datasets.market import Market
from evenflow.datasets.tpch import Tpch
from evenflow.datasets.words import Words
from evenflow.errors import InputError
from evenflow.spec.datasets import DATASET_MODELS, ensure_dataset_files

DATA: list[Dataset] = [
    Market(batches=3, rows=200, limits=5),
    Flights(batches=3, alerts=5),
    Words(batches=3, rows=50),
    Tpch(scale=0.001, batches=3),
]


@pytest.mark.parametrize("data", DATA, ids=["market", "flights", "words", "tpch"])
def test_a_dataset_matches_its_schemas_and_repeats(data: Dataset) -> None:
    for stream, schema in data.streams.items():
        batches = list(data.stream_batches(stream))
        assert len(batches) == 3
        assert all(batch.schema == schema for batch in batches)
        assert list(data.stream_batches(stream)) == batches
        times = pa.concat_tables(batches).column(0).cast(pa.int64()).to_numpy()
        assert (np.diff(times) >= 0).all()
    for table, schema in data.tables.items():
        assert data.table_rows(table).schema == schema
        assert data.table_rows(table) == data.table_rows(table)


def test_the_market_has_hot_symbols_that_change() -> None:
    market = Market(batches=4, rows=5_000, symbols=500, skew=1.0, shift=2)
    tops = [
        pc.value_counts(batch["symbol"]).to_pylist() for batch in market.stream_batches("trades")
    ]
    hottest = [max(top, key=lambda entry: entry["counts"]) for top in tops]
    assert all(entry["counts"] > 5_000 / 500 * 20 for entry in hottest)
    names = [entry["values"] for entry in hottest]
    assert names[0] == names[1] != names[2] == names[3]


def test_quotes_and_news_burst_in_turn() -> None:
    market = Market(batches=24, rows=100, period=12)
    quotes, news = ([len(b) for b in market.stream_batches(name)] for name in ("quotes", "news"))
    assert sorted(set(quotes)) == sorted(set(news)) == [20, 100]
    assert np.corrcoef(quotes, news)[0, 1] < 0
    assert quotes[:18] == news[6:]


def test_flights_are_those_of_the_year() -> None:
    whole = Flights(batches=366)
    assert sum(len(batch) for batch in whole.stream_batches("flights")) == 328_521
    alerts = whole.table_rows("alerts")
    assert set(alerts["dest"].to_pylist()) <= set(
        pa.concat_tables(whole.stream_batches("flights"))["dest"].to_pylist()
    )


@pytest.mark.parametrize(
    "wrong", [lambda: Market(rows=0), lambda: Flights(hours=0), lambda: Words(rate=0),
              lambda: Market(seconds=0.0), lambda: Words().table_rows("any")]
)  # fmt: skip
def test_bad_settings_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(InputError):
        wrong()


def test_files_follow_from_the_settings(tmp_path: Path) -> None:
    model = DATASET_MODELS["words"](kind="words", batches=2, rows=5)
    first = ensure_dataset_files(model, "words", tmp_path)
    files = sorted(first.iterdir())
    assert [file.name for file in files] == ["000000.parquet", "000001.parquet"]
    assert files[0].stat().st_mtime < files[1].stat().st_mtime
    before = files[0].stat().st_ino
    assert ensure_dataset_files(model, "words", tmp_path) == first
    assert files[0].stat().st_ino == before
    assert ensure_dataset_files(model.model_copy(update={"rows": 6}), "words", tmp_path) != first
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
