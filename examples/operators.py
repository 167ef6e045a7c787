"""The Python operator of 06_operator.yaml: what SQL cannot say, as a class over Arrow tables."""

from collections.abc import Mapping

import pyarrow as pa

from evenflow.sql import Operator

_TIME = pa.timestamp("us", "UTC")


class Runs(Operator):
    """Trades that end a run: at least `LENGTH` of one symbol, each dearer than the one before."""

    LENGTH = 4
    schema = pa.schema(
        [("ts", _TIME), ("symbol", pa.string()), ("trades", pa.int64()), ("gain", pa.float64())]
    )
    state = pa.schema(
        [
            ("symbol", pa.string()),
            ("trades", pa.int64()),
            ("first", pa.float64()),
            ("last", pa.float64()),
        ]
    )

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        """Go on with the run of each symbol; tell of those that end."""
        runs = {r["symbol"]: (r["trades"], r["first"], r["last"]) for r in state.to_pylist()}
        ended = []
        trades = rows.get("trades")
        # Rows of a batch come in any order; a run is one in time.
        for row in [] if trades is None else trades.sort_by("ts").to_pylist():
            symbol, price = row["symbol"], row["price"]
            count, first, last = runs.get(symbol, (0, price, price))
            if count and price > last:
                runs[symbol] = (count + 1, first, price)
                continue
            if count >= self.LENGTH:
                gain = last / first - 1
                ended.append({"ts": row["ts"], "symbol": symbol, "trades": count, "gain": gain})
            runs[symbol] = (1, price, price)
        kept = [
            {"symbol": symbol, "trades": count, "first": first, "last": last}
            for symbol, (count, first, last) in sorted(runs.items())
        ]
        results = pa.Table.from_pylist(ended, schema=self.schema)
        return results, pa.Table.from_pylist(kept, schema=self.state)
