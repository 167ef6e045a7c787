"""Runs a flow from Kafka to Kafka: Avro values, a password, a topic that gets more partitions.

Usage: python -m tests.support.kafka_check FOLDER

A program of its own, since connectors are settings of a new Spark session. Prints what came in,
what was expected and what a reader of the results' topic sees.
"""

import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.kafka_server import KafkaServer
from scripts.services import kafka_connector_jars

from evenflow.spark.from_spec import flow_from_spec
from evenflow.spark.run import Run
from evenflow.spark.session import open_session
from evenflow.spec import CheckedSpec, load_spec

ROWS, MAX_PER_BATCH, PARTITIONS = 400, 150, (1, 16)
AVRO = """{"type": "record", "name": "Trade", "fields": [{"name": "id", "type": "long"},
 {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
 {"name": "symbol", "type": "string"}]}"""
SPEC: dict[str, Any] = {
    "workers": 2,
    "checkpoint": "run",
    "sources": {
        "trades": {
            "format": "kafka",
            "options": {
                "subscribe": "trades",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": MAX_PER_BATCH,
                "kafka.metadata.max.age.ms": 500,
            },
            "select": [
                f"from_avro(value, '{AVRO}') AS row",
                "row.id AS id",
                "row.ts AS ts",
                "row.symbol AS symbol",
            ],
            "schema": "id BIGINT, ts TIMESTAMP, symbol STRING",
            "time": "ts",
            "watermark": "1 hour",
        }
    },
    "queries": {"even": "SELECT id, ts, symbol FROM trades WHERE id % 2 = 0"},
    "sinks": {"topic": {"format": "kafka", "options": {"topic": "even"}}},
}


def avro(number: int) -> bytes:
    """Return one trade in Avro's binary encoding: zigzag varints, a length before a text."""

    def varint(value: int) -> bytes:
        value, encoded = (value << 1) ^ (value >> 63), b""
        while value > 0x7F:
            encoded += struct.pack("B", value & 0x7F | 0x80)
            value >>= 7
        return encoded + struct.pack("B", value)

    symbol = f"S{number % 7}".encode()
    micros = 1_767_225_600_000_000 + number * 10_000
    return varint(number) + varint(micros) + varint(len(symbol)) + symbol


def spec_file(folder: Path, server: KafkaServer) -> CheckedSpec:
    """Write the specification, with the options by which the broker is reached."""
    spec = json.loads(json.dumps(SPEC))
    for section, name in (("sources", "trades"), ("sinks", "topic")):
        spec[section][name]["options"] |= server.secure_options
    file = folder / "spec.yaml"
    file.write_text(json.dumps(spec))
    return load_spec(file)


def wait(run: Run, is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not is_done():
        if time.monotonic() > until or not run.is_active:
            run.stop()
            raise TimeoutError(f"only {rows_read(run)} rows were read; {run.sinks.errors}")
        time.sleep(0.1)


def rows_read(run: Run) -> int:
    return sum(p.rows for p in run.progress.values())


def main(folder: Path) -> dict[str, Any]:
    values = [avro(number) for number in range(2 * ROWS)]
    with KafkaServer(folder / "broker") as server:
        server.create_topic("trades", PARTITIONS[0])
        server.create_topic("even", 1)
        server.produce("trades", values[:ROWS], PARTITIONS[0])
        jars = ",".join(map(str, kafka_connector_jars()))
        spark = open_session("local[2,4]", {"spark.jars": jars})
        checked = spec_file(folder, server)
        run = flow_from_spec(checked, spark, str(folder / "run")).start("200 milliseconds")
        run.progress  # noqa: B018 - collected from here on
        wait(run, lambda: run.results("even", limit=ROWS).to_arrow().num_rows >= ROWS // 2)
        server.add_partitions("trades", PARTITIONS[1])
        server.produce("trades", values[ROWS:], PARTITIONS[1])
        wait(run, lambda: run.results("even", limit=2 * ROWS).to_arrow().num_rows >= ROWS)
        run.finish()
        largest = max(p.rows for p in run.progress.values())
        options = {**server.secure_options, "subscribe": "even", "includeHeaders": "true"}
        topic = spark.read.format("kafka").options(**options).load().collect()
        expected = Counter(run.results("even", batch="batch").to_arrow()["id"].to_pylist())
        batches = set(run.results("even", batch="batch").to_arrow()["batch"].to_pylist())
        problems = run.sinks.errors
        spark.stop()
    headers = {h.value.decode() for row in topic for h in row.headers or ()}
    delivered = Counter(json.loads(row.value)["id"] for row in topic)
    return {
        "expected": len(expected),
        "ids": expected == Counter(range(0, 2 * ROWS, 2)),
        "missing": (expected - delivered).total(),
        "duplicates": (delivered - expected).total(),
        "headers": headers == {str(batch) for batch in batches},
        "largest_batch": largest,
        "errors": problems,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
