"""Produces rows to Kafka, kills the flow's driver on the way, compares Delta with Spark's answer.

Usage: examples/08_kafka/run [ROWS] [FOLDER]

Prints one JSON object: rows produced, results expected (Spark's batch SQL over the topic) and
delivered (read from the Delta tables), and how many are missing or there twice.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable
from scripts.kafka_server import KafkaServer
from scripts.services import UnavailableError, kafka_connector_jars

from evenflow.spark.session import open_session
from evenflow.spec import load_spec

KILLS, PARTITIONS, TOPIC = 3, 4, "trades"
SPEC = Path(__file__).parent / "flow.yaml"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROWS_PER_SECOND = 100  # of event time
COMMITS_BEFORE_A_KILL = 1
LAST_SYMBOL = "END"  # its row moves the watermark past all windows


def trades(count: int) -> Iterator[bytes]:
    """Yield trades in the order of their times; few symbols have most of them."""
    chance = random.Random(8)  # noqa: S311 - reproducible data
    for number in range(count):
        yield trade(
            number,
            BEGIN + timedelta(seconds=number / ROWS_PER_SECOND),
            f"S{int(chance.paretovariate(1.0)) % 50}",
            round(chance.uniform(100, 110), 2),
            chance.randint(1, 100),
        )
    yield trade(count, BEGIN + timedelta(days=1), LAST_SYMBOL, 1.0, 1)


def trade(number: int, at: datetime, symbol: str, price: float, qty: int) -> bytes:
    """Return one trade as JSON."""
    row = {"id": number, "ts": at.isoformat(), "symbol": symbol, "price": price, "qty": qty}
    return json.dumps(row).encode()


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the flow in a process group of its own, with its output in a file."""
    command = [sys.executable, "-c", "from evenflow.cli.app import main; main()"]
    with (folder / "run.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - this program
            [*command, "run", str(SPEC), "--no-page", *options],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def committed(folder: Path) -> int:
    """Return the number of the last entry in the ledger of the checkpoint."""
    ledger = folder / "kafka" / "ledger"
    return max((int(file.name) for file in ledger.glob("[0-9]*")), default=0)


def kill_after_commits(folder: Path, seconds: float) -> None:
    """Start the flow; kill its driver and JVM with SIGKILL, some time after its next commits."""
    goal = committed(folder) + 1 + COMMITS_BEFORE_A_KILL  # a start writes an entry too
    process = start(folder)
    try:
        while committed(folder) < goal:
            if process.poll() is not None:
                sys.exit(f"the flow has ended: {(folder / 'run.log').read_text()[-2000:]}")
            time.sleep(0.02)
        time.sleep(seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finish(folder: Path) -> None:
    """Run the flow until all rows are processed and delivered."""
    process = start(folder, "--set", "available_now=true")
    try:
        if process.wait() != 0:
            sys.exit(f"the flow failed: {(folder / 'run.log').read_text()[-2000:]}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def results(folder: Path) -> tuple[int, Counter[Any], Counter[Any]]:
    """Return the rows of the topic, and the results: by Spark's batch SQL, and as delivered."""
    spec = load_spec(SPEC).spec
    source = spec.sources[TOPIC]
    spark = open_session("local[2,4]", {str(k): str(v) for k, v in spec.spark.config.items()})
    options = {"kafka.bootstrap.servers": os.environ["BROKERS"], "subscribe": TOPIC}
    rows = spark.read.format("kafka").options(**options).load().selectExpr(*source.select)
    produced = rows.drop("row").cache()
    produced.createOrReplaceTempView(TOPIC)
    expected: Counter[Any] = Counter()
    delivered: Counter[Any] = Counter()
    for name, query in spec.queries.items():
        answer = spark.sql(query.sql).where(f"symbol <> '{LAST_SYMBOL}'").toArrow()
        expected.update((name, *row.values()) for row in answer.to_pylist())
        table = DeltaTable(str(folder / "kafka-lake" / name)).to_pyarrow_table()
        rows_there = table.select(answer.column_names).to_pylist()
        delivered.update((name, *row.values()) for row in rows_there)
    count = produced.count()
    spark.stop()
    return count, expected, delivered


def main(rows: int, folder: Path) -> dict[str, int]:
    """Produce, kill and compare."""
    values = list(trades(rows))
    chance = random.Random(rows)  # noqa: S311 - reproducible kills
    with KafkaServer(folder / "broker") as server:
        server.create_topic(TOPIC, PARTITIONS)
        jars = ",".join(map(str, kafka_connector_jars()))
        os.environ.update(BROKERS=server.address, KAFKA_JARS=jars, EVENFLOW_RUNS=str(folder))
        share = -(-len(values) // (KILLS + 1))
        for kill in range(KILLS + 1):
            server.produce(TOPIC, values[kill * share : (kill + 1) * share], PARTITIONS)
            if kill < KILLS:
                kill_after_commits(folder, chance.uniform(0, 3))
        finish(folder)
        produced, expected, delivered = results(folder)
    return {
        "produced": produced,
        "expected": expected.total(),
        "delivered": delivered.total(),
        "missing": (expected - delivered).total(),
        "duplicates": (delivered - expected).total(),
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # ends what was started
    row_count = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    try:
        with TemporaryDirectory(prefix="evenflow-kafka-") as scratch:
            found = main(row_count, Path(sys.argv[2] if len(sys.argv) > 2 else scratch).absolute())
    except UnavailableError as error:
        sys.exit(str(error))
    print(json.dumps(found))
    sys.exit(0 if found["missing"] == found["duplicates"] == 0 else 1)
